// The page: open files, commands, and what they print. The worker does all the work.

import { Broken, Client, Stopped } from './client.js';
import { argument, type Command, commandsFor, EXPORTS, lineOf, stem, TWO } from './commands.js';
import { chosenFiles, type Found, filesOf, freePath } from './dropped.js';
import { attach, revoke, urlOf } from './host.js';
import { unpacked } from './packed.js';
import {
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
  swap: by<HTMLButtonElement>('swap'),
  progress: by<HTMLProgressElement>('progress'),
  status: by('status'),
  tabs: by('tabs'),
  command: by<HTMLFormElement>('command'),
  settings: by('settings'),
  line: by<HTMLInputElement>('line'),
  run: by<HTMLButtonElement>('run'),
  copy: by<HTMLButtonElement>('copy'),
  save: by<HTMLAnchorElement>('save'),
  said: by('said'),
  welcome: by('welcome'),
  page: by<HTMLIFrameElement>('page'),
  text: by<HTMLPreElement>('text'),
  written: by<HTMLUListElement>('written'),
};

const files: Listed[] = [];
const results = new Map<string, Promise<Ran>>();
const sizes = new WeakMap<Promise<Ran>, number>();
/** Each command's settings, by option. */
const values = new Map<string, Map<string, string>>();
let command: Command | null = null;
let shown = 0;
let urls: string[] = [];
/** The page in the frame, which stays there while other commands are shown. */
let framed: { ran: Ran; url: string } | null = null;
let ready = false;

/** Takes the worker's files from this document, or from the scripts that a site loads. */
function partsOf(): { parts: Parts; script: string } {
  const given = new Map<string, string>();
  for (const one of document.querySelectorAll<HTMLScriptElement>('script[data-part]')) {
    given.set(one.dataset['part']!, one.textContent ?? '');
    one.remove();
  }
  const loaded = (globalThis as { memreplayParts?: Record<string, string> }).memreplayParts ?? {};
  const part = (name: string) => given.get(name) ?? loaded[name] ?? '';
  const parts = Object.fromEntries(PARTS.map((name) => [name, part(name)])) as Parts;
  return { parts, script: part('worker.js') };
}

const { parts, script } = partsOf();
const client = new Client(async () => unpacked(script, 'text/javascript').blob(), parts, told);

function state(now: 'starting' | 'ready' | 'busy'): void {
  view.progress.hidden = true;
  document.body.dataset['state'] = now;
  view.run.textContent = now === 'busy' ? 'Stop' : 'Run';
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
  const opened = found.filter(({ path }) => !/(^|\/)\./.test(path) || found.length === 1);
  if (!opened.length) {
    explain(
      ['memreplay: error: there are no files in this; choose a snapshot, or a folder of them'],
      true,
    );
    return;
  }
  const taken = new Set(files.map((one) => one.path));
  for (const one of files) one.chosen = false;
  const added = opened.map(({ path, file }) => {
    const free = freePath(path, taken);
    taken.add(free);
    return { path: free, file, chosen: true };
  });
  files.push(...added);
  command = null;
  client.open(added.map(({ path, file }) => ({ path, file })));
  list();
  choose();
}

function remove(one: Listed): void {
  files.splice(files.indexOf(one), 1);
  client.close(one.path);
  for (const line of results.keys()) if (line.includes(argument(one.path))) results.delete(line);
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
      });
      box.addEventListener('change', () => {
        one.chosen = box.checked;
        choose();
      });
      const name = document.createElement('span');
      name.textContent = one.path;
      const size = document.createElement('small');
      size.textContent = sizeText(one.file.size);
      const label = document.createElement('label');
      label.append(box, ' ', name, ' ', size);
      const button = document.createElement('button');
      button.textContent = '×';
      button.ariaLabel = `Close ${one.path}`;
      button.addEventListener('click', () => remove(one));
      const item = document.createElement('li');
      item.append(label, button);
      return item;
    }),
  );
}

/** Offers the commands for the chosen files, and shows the first, or the one with the same name. */
function choose(): void {
  const commands = commandsFor(chosen().length);
  const none = !commands.length;
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
  else clear();
}

function select(one: Command): void {
  command = one;
  mark(one);
  settings(one);
  void show(written());
}

/** Marks a command's tab. */
function mark(one: Command | undefined): void {
  for (const tab of view.tabs.querySelectorAll<HTMLElement>('[role=tab]')) {
    tab.ariaSelected = String(tab.dataset['command'] === one?.name);
  }
}

/** Returns the command line of the selected command. */
function written(): string {
  return command ? lineFor(command) : '';
}

/** Returns a command's line for the chosen files. */
function lineFor(one: Command): string {
  const open = files.map(({ path }) => path);
  const paths = chosen().map(({ path }) => path);
  return lineOf(one, paths, values.get(one.name) ?? new Map(), open);
}

/** Shows the selected command's settings. */
function settings(one: Command): void {
  const own = values.get(one.name) ?? new Map<string, string>();
  values.set(one.name, own);
  const fields = (one.settings ?? []).map(({ label, option, values: among, example }) => {
    const field = among && among.length > 1 ? choices(among) : document.createElement('input');
    if (field instanceof HTMLInputElement) {
      field.type = among ? 'checkbox' : 'text';
      field.placeholder = example ?? '';
      field.checked = own.has(option);
    }
    if (!among || among.length > 1) field.value = own.get(option) ?? '';
    field.dataset['option'] = option;
    field.addEventListener('change', () => {
      const on = field instanceof HTMLInputElement && among ? field.checked : field.value.trim();
      if (on) own.set(option, on === true ? 'on' : on);
      else own.delete(option);
      void show(written());
    });
    return labelled(label, field);
  });
  if (one.name === 'export') fields.push(labelled('Format', formats(own)));
  view.settings.replaceChildren(...fields);
}

function labelled(label: string, field: HTMLElement): HTMLLabelElement {
  const made = document.createElement('label');
  made.append(label, ' ', field);
  return made;
}

function choices(among: readonly string[]): HTMLSelectElement {
  const made = document.createElement('select');
  made.append(new Option('default', ''), ...among.map((one) => new Option(one, one)));
  return made;
}

function formats(own: Map<string, string>): HTMLSelectElement {
  const made = document.createElement('select');
  made.append(...EXPORTS.map(([ending, title]) => new Option(title, ending)));
  made.value = own.get('-o') ?? EXPORTS[0]![0];
  made.dataset['option'] = '-o';
  made.addEventListener('change', () => {
    own.set('-o', made.value);
    void show(written());
  });
  return made;
}

/** Runs a command line, or takes its result from before, and shows it. */
async function show(line: string): Promise<void> {
  const number = ++shown;
  view.line.value = line;
  clear();
  const before = results.get(line);
  const asked = performance.now();
  const running = before ?? client.run(line, columns());
  results.set(line, running);
  state('busy');
  view.status.textContent = ready ? 'Working …' : 'Starting …';
  try {
    const ran = await running;
    sizes.set(
      running,
      ran.written.reduce((sum, { bytes }) => sum + bytes.length, ran.text.length),
    );
    forgetOldest();
    if (number !== shown) return;
    display(ran);
    view.status.textContent = `${(ran.took / 1000).toFixed(2)} s`;
    document.body.dataset['took'] = String(Math.round(performance.now() - asked));
    document.body.dataset['heap'] = String(ran.heap);
    if (ran.code === 0) beforehand();
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
  const running = client.run(line, columns(), false);
  running.catch(() => results.delete(line));
  results.set(line, running);
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
  view.text.textContent = text.slice(0, MOST_SHOWN).trimEnd();
  if (text.length > MOST_SHOWN) {
    view.text.append(`\n… This is the beginning of ${sizeText(bytes.length)}: Save has all of it.`);
  }
  const kind = /^\{\s*"/.test(text) ? 'json' : 'txt';
  const name = `${stem(chosen()[0]?.path ?? '')}-${wordOf(view.line.value)}.${kind}`;
  if (text) offer(link({ name, bytes }, 'text/plain'), name);
}

/** Shows a page in the frame; returns its URL. */
function frame(ran: Ran, { bytes }: Written): string {
  if (framed?.ran !== ran) {
    if (framed) revoke(framed.url);
    framed = { ran, url: urlOf(bytes, 'text/html') };
    view.page.src = framed.url;
  }
  view.page.hidden = false;
  return framed.url;
}

function link({ bytes }: Written, type: string): string {
  const url = urlOf(bytes, type);
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
  view.said.textContent = lines.join('\n').trimEnd();
  view.said.className = error ? 'error' : '';
  view.said.hidden = false;
}

function clear(): void {
  for (const one of [view.page, view.text, view.written, view.said, view.save]) one.hidden = true;
  view.text.textContent = view.said.textContent = '';
  for (const url of urls) revoke(url);
  urls = [];
}

/** Returns how many characters of text fit, within what is easy to read. */
function columns(): number {
  const canvas = document.createElement('canvas').getContext('2d')!;
  canvas.font = getComputedStyle(view.text).font;
  const fit = Math.floor((view.command.clientWidth - 44) / canvas.measureText('0').width);
  const found = Math.max(60, Math.min(fit, 120));
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
  if (document.body.dataset['state'] === 'busy') client.stop();
  else {
    const line = view.line.value;
    mark(commandsFor(chosen().length).find((one) => !one.page && one.words[0] === wordOf(line)));
    results.delete(line);
    void show(line);
  }
});
view.swap.addEventListener('click', () => {
  files.reverse();
  list();
  choose();
});
view.welcome.addEventListener('click', () => by('choose').click());
view.copy.addEventListener('click', () => {
  view.line.select();
  void navigator.clipboard?.writeText(view.line.value);
});
addEventListener('dragover', (event) => {
  event.preventDefault();
  document.body.classList.add('over');
});
addEventListener('dragleave', () => document.body.classList.remove('over'));
addEventListener('drop', (event) => {
  event.preventDefault();
  document.body.classList.remove('over');
  if (!event.dataTransfer) return;
  const unreadable = (error: unknown) =>
    `memreplay: error: can't read what was dropped: ${(error as Error).message}`;
  filesOf(event.dataTransfer).then(add, (error) => explain([unreadable(error)], true));
});
view.status.textContent = 'Starting …';
attach({ add, reading, explain });
