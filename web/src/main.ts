// The page: open files, commands, and what they print. The worker does all the work.

import { Broken, Client, Stopped } from './client.js';
import {
  argument,
  type Command,
  commandsFor,
  EXPORTS,
  lineOf,
  type Setting,
  stem,
  TWO,
} from './commands.js';
import { chosenFiles, type Found, filesOf, freePath, snapshotsOf } from './dropped.js';
import { attach, revoke, urlOf } from './host.js';
import { bytesOf, unpacked } from './packed.js';
import {
  type FromFrame,
  type FromWorker,
  PARTS,
  type Parts,
  type Progress,
  type Ran,
  type Written,
} from './protocol.js';

interface Listed {
  path: string;
  file: File;
  chosen: boolean;
  /** Whether to read only the intact part. */
  salvage: boolean;
}

/** Characters of text that are shown; a browser takes minutes for tens of millions. */
const MOST_SHOWN = 2 ** 19;
/** Bytes of the results that are kept, so that their tabs show at once. */
const MOST_KEPT = 512 * 2 ** 20;
const BUGS = 'https://github.com/memreplay/memreplay/issues';

function by<T extends HTMLElement = HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

const view = {
  files: by<HTMLUListElement>('files'),
  all: by<HTMLButtonElement>('all'),
  swap: by<HTMLButtonElement>('swap'),
  progress: by<HTMLProgressElement>('progress'),
  status: by('status'),
  tabs: by('tabs'),
  command: by<HTMLFormElement>('command'),
  settings: by('settings'),
  line: by<HTMLInputElement>('line'),
  run: by<HTMLButtonElement>('run'),
  stop: by<HTMLButtonElement>('stop'),
  copy: by<HTMLButtonElement>('copy'),
  help: by<HTMLButtonElement>('help'),
  save: by<HTMLAnchorElement>('save'),
  said: by('said'),
  salvage: by<HTMLButtonElement>('salvage'),
  welcome: by('welcome'),
  page: by<HTMLIFrameElement>('page'),
  text: by<HTMLPreElement>('text'),
  written: by<HTMLUListElement>('written'),
};

/** Reports need at least so many columns. */
const FEWEST = 60;
const SMALLEST_PX = 8;
const NO_SNAPSHOTS =
  'memreplay: error: no snapshots in this folder: their names end in .pkl, .pickle, .json or .html, perhaps compressed';

const NO_FILES =
  'memreplay: error: there are no files in this; choose a snapshot, or a folder of them';

const FOLDER_ABOVE =
  'memreplay: error: a folder can be dropped on the bar above, not on this page; or choose Open folder';

const files: Listed[] = [];
const results = new Map<string, Promise<Ran>>();
const sizes = new WeakMap<Promise<Ran>, number>();
/** Each command's settings, by option. */
const values = new Map<Command, Map<string, string>>();
/** The files that were shown together last. */
let together: Listed[] = [];
let command: Command | null = null;
let shown = 0;
/** The line that runs, or ran last. */
let running = '';
let urls: string[] = [];
/** The page in the frame, which stays there while other commands are shown. */
let framed: { ran: Ran; shown: string; saved: string } | null = null;
let ready = false;

/** Takes the worker's files, and the example, from this document, or from the scripts that a site loads. */
function partsOf(): { parts: Parts; script: string; example: string } {
  const given = new Map<string, string>();
  for (const one of document.querySelectorAll<HTMLScriptElement>('script[data-part]')) {
    given.set(one.dataset['part']!, one.textContent ?? '');
    one.remove();
  }
  const loaded = (globalThis as { memreplayParts?: Record<string, string> }).memreplayParts ?? {};
  const part = (name: string) => given.get(name) ?? loaded[name] ?? '';
  const parts = Object.fromEntries(PARTS.map((name) => [name, part(name)])) as Parts;
  return { parts, script: part('worker.js'), example: part('example.pkl.gz') };
}

const { parts, script, example } = partsOf();
const client = new Client(async () => unpacked(script, 'text/javascript').blob(), parts, told);

function state(now: 'starting' | 'ready' | 'busy'): void {
  view.progress.hidden = true;
  document.body.dataset['state'] = now;
  view.run.hidden = now === 'busy';
  view.stop.hidden = !view.run.hidden;
}

function told(message: FromWorker): void {
  if (message.what === 'ready') {
    ready = true;
    document.body.dataset['started'] = String(Math.round(performance.now()));
    if (document.body.dataset['state'] === 'starting') {
      state('ready');
      view.status.textContent = 'Ready';
    }
  } else if (message.what === 'progress') {
    // What runs beforehand is of no interest.
    if (document.body.dataset['state'] === 'busy') reading(message);
  } else if (message.what === 'broken') {
    explain([ended(message.reason)], true);
  }
}

/** Shows how far a file has been read. */
function reading({ path, done, total }: Progress): void {
  view.progress.value = done / (total || 1);
  view.progress.hidden = false;
  view.status.textContent = `Reading ${path}`;
}

function chosen(): Listed[] {
  return files.filter((one) => one.chosen);
}

function add(found: Found[]): void {
  // Systems put files like .DS_Store into folders.
  const opened = snapshotsOf(
    found.filter(({ path }) => !/(^|\/)\./.test(path) || found.length === 1),
  );
  if (!opened.length) {
    explain([found.length ? NO_SNAPSHOTS : NO_FILES], true);
    return;
  }
  const taken = new Set(files.map((one) => one.path));
  for (const one of files) one.chosen = false;
  const added = opened.map(({ path, file }) => {
    const free = freePath(path, taken);
    taken.add(free);
    return { path: free, file, chosen: true, salvage: false };
  });
  files.push(...added);
  command = null;
  client.open(added.map(({ path, file }) => ({ path, file })));
  list();
  choose();
}

function remove(one: Listed): void {
  const place = files.indexOf(one);
  files.splice(place, 1);
  const next = files[Math.min(place, files.length - 1)];
  if (next && !chosen().length) next.chosen = true;
  client.close(one.path);
  for (const line of results.keys()) if (line.includes(argument(one.path))) results.delete(line);
  list();
  choose();
}

/** Shows some of the open files. */
function pick(some: readonly Listed[]): void {
  for (const one of files) one.chosen = some.includes(one);
  list();
  choose();
}

/** Shows the list of open files. */
function list(): void {
  view.files.replaceChildren(
    ...files.map((one) => {
      const box = Object.assign(document.createElement('input'), {
        type: 'checkbox',
        checked: one.chosen,
        title: 'Show it together with others',
        ariaLabel: one.path,
        hidden: files.length === 1,
      });
      box.addEventListener('change', () => {
        one.chosen = box.checked;
        choose();
      });
      const size = document.createElement('small');
      size.textContent = sizeText(one.file.size);
      const name = document.createElement('button');
      name.append(one.path, ' ', size);
      name.title = 'Show only this file';
      name.disabled = files.length === 1;
      name.addEventListener('click', () => pick([one]));
      const close = document.createElement('button');
      close.textContent = '×';
      close.className = 'close';
      close.ariaLabel = close.title = `Close ${one.path}`;
      close.addEventListener('click', () => remove(one));
      const item = document.createElement('li');
      item.append(box, name, close);
      return item;
    }),
  );
}

/** Offers the commands for the chosen files, and shows the first, or the one with the same name. */
function choose(): void {
  const commands = commandsFor(chosen().length);
  const none = !commands.length;
  const paths = chosen().map((one) => one.path);
  const named = paths.length > 2 ? `${paths.length} snapshots` : paths.join(' and ');
  document.title = named ? `${named} – memreplay` : 'memreplay';
  for (const [place, item] of [...view.files.children].entries()) {
    const role = commands === TWO ? ['base', 'new'][paths.indexOf(files[place]!.path)] : '';
    (item as HTMLElement).dataset['role'] = role ?? '';
  }
  together = paths.length > 1 ? chosen() : together.filter((one) => files.includes(one));
  view.all.hidden = paths.length > 1 || together.length < 2;
  view.all.textContent = `Back to ${together.length} files`;
  view.welcome.hidden = !none;
  view.tabs.hidden = view.command.hidden = none;
  view.swap.hidden = commands !== TWO;
  view.tabs.replaceChildren(
    ...commands.map((one) => {
      const tab = document.createElement('button');
      tab.type = 'button';
      tab.role = 'tab';
      tab.dataset['command'] = one.name;
      tab.textContent = one.title;
      tab.addEventListener('click', () => select(one));
      return tab;
    }),
  );
  const first = commands.find((one) => one.name === command?.name) ?? commands[0];
  if (first) select(first);
  else {
    clear();
    shown++;
    if (ready) state('ready');
    view.status.textContent = ready ? (files.length ? 'Choose a file' : 'Ready') : 'Starting …';
  }
}

function select(one: Command): void {
  command = one;
  mark(one);
  settings(one);
  void show(lineFor(one));
}

/** Marks a command's tab. Only one of the tabs is a stop of the Tab key; arrow keys lead to the others. */
function mark(one: Command | undefined): void {
  for (const tab of tabs()) {
    tab.ariaSelected = String(tab.dataset['command'] === one?.name);
    tab.tabIndex = tab.ariaSelected === 'true' ? 0 : -1;
  }
  if (!one) tabs()[0]!.tabIndex = 0;
}

function tabs(): HTMLElement[] {
  return [...view.tabs.querySelectorAll<HTMLElement>('[role=tab]')];
}

/** Returns a command's line for the chosen files. */
function lineFor(one: Command): string {
  const paths = chosen().map(({ path }) => path);
  const salvage = chosen().some((each) => each.salvage);
  return lineOf(
    one,
    paths,
    valuesOf(one),
    files.map(({ path }) => path),
    salvage,
  );
}

/** Returns a command's settings, by option. */
function valuesOf(one: Command): Map<string, string> {
  const own = values.get(one) ?? new Map<string, string>();
  if (!values.has(one)) {
    for (const { option, first } of one.settings ?? []) if (first) own.set(option, first);
    values.set(one, own);
  }
  return own;
}

/** Shows the selected command's settings. */
function settings(one: Command): void {
  const own = valuesOf(one);
  const fields = (one.settings ?? []).map((setting) => {
    const { label, option, values: among } = setting;
    const field = among && among.length > 1 ? choices(setting) : document.createElement('input');
    if (field instanceof HTMLInputElement) {
      field.type = among ? 'checkbox' : 'text';
      field.checked = own.has(option);
    }
    if (!among || among.length > 1) field.value = own.get(option) ?? '';
    field.dataset['option'] = option;
    field.addEventListener('change', () => {
      const on = field instanceof HTMLInputElement && among ? field.checked : field.value.trim();
      if (on) own.set(option, on === true ? 'on' : on);
      else own.delete(option);
      void show(lineFor(one));
    });
    return labelled(label, field, setting.examples);
  });
  if (one.name === 'export') fields.push(labelled('Format', formats(one, own)));
  view.settings.replaceChildren(...fields);
}

function labelled(
  label: string,
  field: HTMLInputElement | HTMLSelectElement,
  examples?: readonly string[],
): HTMLLabelElement {
  const made = document.createElement('label');
  made.append(label, ' ', field);
  if (field instanceof HTMLInputElement && examples) {
    field.placeholder = examples[0]!;
    field.size = Math.max(8, examples[0]!.length + 1);
    const offered = document.createElement('datalist');
    offered.id = `examples-${field.dataset['option']}`;
    offered.append(...examples.map((one) => new Option(one)));
    field.setAttribute('list', offered.id);
    made.append(offered);
  }
  return made;
}

function choices({ values: among, otherwise }: Setting): HTMLSelectElement {
  const made = document.createElement('select');
  const options = (among ?? []).map((one) => (typeof one === 'string' ? [one, one] : one));
  made.append(
    new Option(otherwise, ''),
    ...options.map(([value, text]) => new Option(text, value)),
  );
  return made;
}

function formats(one: Command, own: Map<string, string>): HTMLSelectElement {
  const made = document.createElement('select');
  made.append(...EXPORTS.map(([ending, title]) => new Option(title, ending)));
  made.value = own.get('-o') ?? EXPORTS[0]![0];
  made.dataset['option'] = '-o';
  made.addEventListener('change', () => {
    own.set('-o', made.value);
    void show(lineFor(one));
  });
  return made;
}

/** Runs a command line, or takes its result from before, and shows it. */
async function show(line: string): Promise<void> {
  const number = ++shown;
  view.line.value = running = line;
  clear();
  const asked = performance.now();
  const answer = results.get(line) ?? client.run(line, columns());
  results.set(line, answer);
  state('busy');
  view.status.textContent = ready ? 'Working …' : 'Starting …';
  try {
    const ran = await answer;
    sizes.set(
      answer,
      ran.written.reduce((sum, { bytes }) => sum + bytes.length, ran.text.length),
    );
    forgetOldest();
    if (number !== shown) return;
    display(ran);
    const nothing = ran.code > 1 && !ran.text && !ran.written.length;
    view.status.textContent = nothing ? '' : `Done in ${(ran.took / 1000).toFixed(2)} s`;
    document.body.dataset['took'] = String(Math.round(performance.now() - asked));
    document.body.dataset['heap'] = String(ran.heap);
    if (ran.code <= 1) beforehand();
  } catch (error) {
    results.delete(line);
    if (number !== shown) return;
    view.status.textContent = error instanceof Stopped ? 'Stopped' : '';
    if (error instanceof Broken) explain([ended(error.message)], true);
  }
  state('ready');
}

/** Runs the report of a single file while the user looks at its page. */
function beforehand(): void {
  const [one, other] = chosen();
  if (!one || other) return;
  const report = commandsFor(1).find((each) => each.name === 'report')!;
  const line = lineFor(report);
  if (results.has(line)) return;
  const answer = client.run(line, columns(), false);
  answer.catch(() => results.delete(line));
  results.set(line, answer);
}

/** Drops the results that were asked for first, if all together are large. */
function forgetOldest(): void {
  let total = 0;
  for (const [line, running] of [...results].reverse()) {
    total += sizes.get(running) ?? 0;
    if (total > MOST_KEPT) results.delete(line);
  }
}

/** Says why the worker can't go on. */
function ended(reason: string): string {
  if (!ready)
    return `memreplay: error: this browser can't run memreplay (${reason}); try a current one`;
  const said = `memreplay: error: the browser ended this (${reason}).`;
  return /memory|alloc|length/i.test(reason)
    ? `${said} A tab can use at most 4 GB of memory. Read a part with --from and --to, or install memreplay: pip install memreplay`
    : `${said} Please report it with this line: ${BUGS}`;
}

function display(ran: Ran): void {
  const { code, text, written: made } = ran;
  const page = made.find((one) => one.name.endsWith('.html'));
  // It's on the screen, so there's no need to say that it was written.
  const said = ran.said.split('\n').filter((one) => !(page && one.startsWith('memreplay: wrote ')));
  if (said.join('')) explain(said, code > 1 && ran.said.includes('error:'));
  view.salvage.hidden = !(code > 1 && ran.said.includes('--salvage'));
  if (page && made.length === 1) {
    offer(frame(ran, page), page.name);
    return;
  }
  if (made.length) {
    view.written.hidden = false;
    view.written.replaceChildren(
      ...made.map((one) => {
        const item = document.createElement('li');
        const anchor = document.createElement('a');
        anchor.href = link(one, 'application/octet-stream');
        anchor.download = one.name.slice(one.name.lastIndexOf('/') + 1);
        anchor.textContent = `Save ${one.name}`;
        anchor.className = 'button';
        item.append(anchor, ` ${sizeText(one.bytes.length)}`);
        return item;
      }),
    );
    if (!text) return;
  }
  view.text.hidden = false;
  const bytes = new TextEncoder().encode(text);
  view.text.replaceChildren(
    ...linked(text.slice(0, MOST_SHOWN).trimEnd()).flatMap((part) =>
      typeof part === 'string' ? part.split(DOTS).map(ofDots) : [part],
    ),
  );
  if (text.length > MOST_SHOWN) {
    view.text.append(`\n… This is the beginning of ${sizeText(bytes.length)}: Save has all of it.`);
  }
  const kind = /^\{\s*"/.test(text) ? 'json' : 'txt';
  const name = `${stem(chosen()[0]?.path ?? '')}-${wordOf(view.line.value)}.${kind}`;
  if (text) offer(link({ name, bytes }, 'text/plain'), name);
}

/** Braille patterns, which draw the timeline. */
const DOTS = /([\u2800-\u28ff]+)/;

function ofDots(text: string): Node {
  if (!DOTS.test(text)) return new Text(text);
  const span = document.createElement('span');
  span.className = 'dots';
  span.textContent = text;
  return span;
}

/** Makes the command lines in a text run with a click. */
function linked(text: string): (string | Node)[] {
  return text.split(/^(memreplay .+)$/m).map((part, place) => {
    if (place % 2 === 0) return part;
    const anchor = document.createElement('a');
    anchor.href = '#';
    anchor.textContent = part;
    anchor.addEventListener('click', (event) => {
      event.preventDefault();
      run(part);
    });
    return anchor;
  });
}

/** Runs a line that the user wrote or chose. */
function run(line: string): void {
  const among = commandsFor(chosen().length).filter((one) => one.words[0] === wordOf(line));
  // A report and a page can come from one command.
  const its = among.find((one) => lineFor(one) === line) ?? among.find((one) => !one.page);
  mark(its);
  if (its && its !== command) {
    command = its;
    settings(its);
  }
  void show(line);
}

/** Shows a page in the frame; returns the URL to save it. */
function frame(ran: Ran, { bytes }: Written): string {
  if (framed?.ran !== ran) {
    if (framed) for (const url of [framed.shown, framed.saved]) revoke(url);
    const [shown, saved] = [handingOver(bytes), [bytes]].map((one) => urlOf(one, 'text/html'));
    framed = { ran, shown: shown!, saved: saved! };
    view.page.src = framed.shown;
  }
  view.page.hidden = false;
  return framed.saved;
}

/** Adds framed.ts to a page, and to its policy. */
function handingOver(bytes: Uint8Array<ArrayBuffer>): BlobPart[] {
  const allowed = 'script-src ';
  const found = new TextDecoder('latin1').decode(bytes.subarray(0, 1024)).indexOf(allowed);
  if (found < 0) return [bytes];
  const at = found + allowed.length;
  const script = `<script>${FRAMED}</script>`;
  return [bytes.subarray(0, at), `${FRAMED_HASH} `, bytes.subarray(at), script];
}

function link({ bytes }: Written, type: string): string {
  const url = urlOf([bytes], type);
  urls.push(url);
  return url;
}

/** Returns the command in a line. */
function wordOf(line: string): string {
  return /^\s*(?:memreplay\s+)?(\w+)/.exec(line)?.[1] ?? '';
}

function offer(url: string, name: string): void {
  view.save.href = url;
  view.save.download = name;
  view.save.title = `Save ${name}`;
  view.save.hidden = false;
}

function explain(lines: string[], error: boolean): void {
  const parts = lines
    .join('\n')
    .trimEnd()
    .split(/(--[a-z][a-z-]*)/);
  view.said.replaceChildren(...parts.map((part, place) => (place % 2 ? option(part) : part)));
  view.said.className = error ? 'error' : '';
  view.said.hidden = false;
}

/** Makes an option that isn't broken across lines. */
function option(name: string): HTMLElement {
  const made = document.createElement('code');
  made.textContent = name;
  return made;
}

function clear(): void {
  const { page, text, written: made, said, save, salvage } = view;
  for (const one of [page, text, made, said, save, salvage]) one.hidden = true;
  view.text.textContent = view.said.textContent = '';
  for (const url of urls) revoke(url);
  urls = [];
}

/** Returns how many characters of text fit, within what is easy to read. On a narrow screen, makes the text smaller. */
function columns(): number {
  view.text.style.fontSize = '';
  const style = getComputedStyle(view.text);
  const size = Number.parseFloat(style.fontSize);
  const canvas = document.createElement('canvas').getContext('2d')!;
  canvas.font = style.font;
  const [letter, dots] = [canvas.measureText('0').width, canvas.measureText('\u28ff').width];
  view.text.style.setProperty('--dots', `${(letter - dots) / size}em`);
  const fit = (view.command.clientWidth - 44) / letter;
  if (fit < FEWEST) {
    view.text.style.fontSize = `${Math.max((size * fit) / FEWEST, SMALLEST_PX)}px`;
  }
  const found = Math.max(FEWEST, Math.min(Math.floor(fit), 120));
  document.body.dataset['columns'] = String(found);
  return found;
}

function sizeText(bytes: number): string {
  const mebi = bytes / 2 ** 20;
  if (mebi >= 1024) return `${(mebi / 1024).toFixed(1)} GiB`;
  return mebi >= 1 ? `${mebi.toFixed(1)} MiB` : `${Math.ceil(bytes / 1024)} KiB`;
}

for (const id of ['choose', 'folder']) {
  const input = by<HTMLInputElement>(id);
  input.addEventListener('change', () => {
    add(chosenFiles(input));
    input.value = '';
  });
}
view.command.addEventListener('submit', (event) => {
  event.preventDefault();
  const line = view.line.value;
  // Enter in a setting runs the line, too.
  if (document.body.dataset['state'] === 'busy' && line === running) return;
  results.delete(line);
  run(line);
});
view.stop.addEventListener('click', () => client.stop());
view.tabs.addEventListener('keydown', (event) => {
  const all = tabs();
  const at = all.indexOf(event.target as HTMLElement);
  const to = {
    ArrowLeft: at - 1,
    ArrowRight: (at + 1) % all.length,
    Home: 0,
    End: -1,
  }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  all.at(to)!.focus();
});
view.salvage.addEventListener('click', () => {
  for (const one of chosen()) one.salvage = true;
  if (command) select(command);
});
view.all.addEventListener('click', () => pick(together));
view.swap.addEventListener('click', () => {
  files.reverse();
  list();
  choose();
});
view.welcome.addEventListener('click', ({ target }) => {
  if (!(target as Element).closest('details, button')) by('choose').click();
});
view.help.addEventListener('click', () => void show(`memreplay help ${command?.words[0]}`));
by('example').addEventListener('click', () => {
  const path = 'serving_oom.pkl.gz';
  add([{ path, file: new File([bytesOf(example)], path) }]);
});
view.copy.addEventListener('click', async () => {
  view.line.select();
  await navigator.clipboard?.writeText(view.line.value);
  view.copy.textContent = 'Copied';
  setTimeout(() => {
    view.copy.textContent = 'Copy';
  }, 1500);
});
function over(on: boolean): void {
  document.body.classList.toggle('over', on);
}

addEventListener('dragover', (event) => {
  event.preventDefault();
  over(true);
});
addEventListener('dragleave', () => over(false));
addEventListener('message', ({ source, data }: MessageEvent<FromFrame>) => {
  if (source !== view.page.contentWindow) return;
  if (data.what === 'over') over(data.on);
  else if (data.what === 'dropped') add(data.found);
  else if (data.what === 'folder') explain([FOLDER_ABOVE], true);
});
addEventListener('drop', (event) => {
  event.preventDefault();
  over(false);
  if (!event.dataTransfer) return;
  const unreadable = (error: unknown) =>
    `memreplay: error: can't read what was dropped: ${(error as Error).message}`;
  filesOf(event.dataTransfer).then(add, (error) => explain([unreadable(error)], true));
});
view.status.textContent = 'Starting …';
attach({ add, reading, explain });
