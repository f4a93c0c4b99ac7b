// The extension hands over files, and saves, as VS Code asks it to.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { FileSystemError, started, Uri, Webview } from './fake.mjs';

const EDITOR = 'memreplay.snapshot';
const HERE = new Uri('vscode-remote', '/run/snap.pkl');
const manifest = JSON.parse(readFileSync(join(import.meta.dirname, '../package.json'), 'utf8'));

/** Opens a file in the editor; returns its webview and what the page gets when it's ready. */
async function opened(fake, uri = HERE) {
  const { editor } = fake.registered[EDITOR];
  const document = await editor.openCustomDocument(uri);
  const webview = new Webview();
  await editor.resolveCustomEditor(document, { webview });
  await webview.say({ what: 'ready' });
  return webview;
}

function bytesOf(count) {
  return Uint8Array.from({ length: count }, (_, i) => i % 251);
}

test('a file arrives in pieces, in order, each in its own buffer', async () => {
  const bytes = bytesOf(9 * 2 ** 20);
  const webview = await opened(started({ 'vscode-remote:/run/snap.pkl': bytes }));
  const [file, ...pieces] = webview.sent;
  const end = pieces.pop();
  assert.deepEqual(file, { what: 'file', path: 'snap.pkl', size: bytes.length });
  assert.deepEqual(end, { what: 'end' });
  assert.deepEqual(
    pieces.map((one) => one.bytes.buffer.byteLength),
    [4 * 2 ** 20, 4 * 2 ** 20, 2 ** 20],
  );
  const joined = Buffer.concat(pieces.map((one) => one.bytes));
  assert.ok(joined.equals(Buffer.from(bytes)));
});

test('the webview may run scripts, and load nothing', async () => {
  const webview = await opened(started({ 'vscode-remote:/run/snap.pkl': bytesOf(3) }));
  assert.deepEqual(webview.options, { enableScripts: true, localResourceRoots: [] });
  assert.equal(webview.html, '<p>the page</p>');
});

test('a page that starts again gets the file again', async () => {
  const webview = await opened(started({ 'vscode-remote:/run/snap.pkl': bytesOf(3) }));
  const first = webview.sent;
  webview.sent = [];
  await webview.say({ what: 'ready' });
  assert.equal(first.length, 3);
  assert.deepEqual(webview.sent, first);
});

test('an empty file is a file', async () => {
  const webview = await opened(started({ 'vscode-remote:/run/snap.pkl': new Uint8Array() }));
  assert.deepEqual(webview.sent, [{ what: 'file', path: 'snap.pkl', size: 0 }, { what: 'end' }]);
});

test('nothing more is sent to a page that was closed', async () => {
  const fake = started({ 'vscode-remote:/run/snap.pkl': bytesOf(9 * 2 ** 20) });
  const { editor } = fake.registered[EDITOR];
  const webview = new Webview();
  await editor.resolveCustomEditor({ uri: HERE }, { webview });
  webview.left = 2;
  await webview.say({ what: 'ready' });
  assert.deepEqual(
    webview.sent.map((one) => one.what),
    ['file', 'piece'],
  );
  assert.equal(webview.left, -1);
});

test('a page that is closed while a file is read gets nothing, and nothing fails', async () => {
  const fake = started({ 'vscode-remote:/run/snap.pkl': bytesOf(3) });
  const { editor } = fake.registered[EDITOR];
  const webview = new Webview();
  await editor.resolveCustomEditor({ uri: HERE }, { webview });
  webview.postMessage = async () => {
    throw new Error('Webview is disposed');
  };
  await webview.say({ what: 'ready' });
});

const BAD = {
  'a file that is gone': [new FileSystemError('FileNotFound'), "it doesn't exist any more"],
  'a file without permission': [new FileSystemError('NoPermissions'), 'check its permissions'],
  'a lost connection': [new FileSystemError('Unavailable', 'the host is away'), 'the host is away'],
  'a folder': [{ type: 2, size: 0 }, 'choose the files in it'],
  'a link to a folder': [{ type: 66, size: 0 }, 'choose the files in it'],
  'a file over 2 GiB': [{ size: 2 ** 31 }, 'at most 2 GiB. Open it with memreplay in a browser'],
};
for (const [name, [one, words]] of Object.entries(BAD)) {
  test(`${name} is explained in the page`, async () => {
    const webview = await opened(started({ 'vscode-remote:/run/snap.pkl': one }));
    const [{ what, reason }, ...more] = webview.sent;
    assert.deepEqual([what, more], ['failed', []]);
    assert.ok(reason.startsWith("memreplay: error: can't open snap.pkl: "), reason);
    assert.ok(reason.includes(words), reason);
  });
}

test('what the page saves goes where the user says', async () => {
  const fake = started({ 'vscode-remote:/run/snap.pkl': bytesOf(3) });
  const webview = await opened(fake);
  fake.api.target = new Uri('file', '/elsewhere/report.txt');
  await webview.say({ what: 'save', name: 'snap-report.txt', bytes: bytesOf(5) });
  assert.deepEqual(fake.said.offered, ['vscode-remote:/run/snap-report.txt']);
  assert.deepEqual(fake.said.written, new Map([['file:/elsewhere/report.txt', bytesOf(5)]]));
  assert.deepEqual(fake.said.errors, []);
});

test('a name with folders is offered without them', async () => {
  const fake = started({ 'vscode-remote:/run/snap.pkl': bytesOf(3) });
  const webview = await opened(fake);
  for (const name of ['../../etc/x.txt', '/x.txt', 'C:\\y\\x.txt', 'a\n/x.txt']) {
    await webview.say({ what: 'save', name, bytes: bytesOf(5) });
  }
  assert.deepEqual(fake.said.offered, Array(4).fill('vscode-remote:/run/x.txt'));
});

test('nothing is saved if the user cancels', async () => {
  const fake = started({ 'vscode-remote:/run/snap.pkl': bytesOf(3) });
  const webview = await opened(fake);
  await webview.say({ what: 'save', name: 'snap-report.txt', bytes: bytesOf(5) });
  assert.equal(fake.said.written.size, 0);
});

test('an error in saving is shown', async () => {
  const fake = started({ 'vscode-remote:/run/snap.pkl': bytesOf(3) });
  const webview = await opened(fake);
  fake.api.target = new Uri('file', '/full/report.txt');
  fake.api.full = new FileSystemError('Unknown', 'no space left on device');
  await webview.say({ what: 'save', name: 'report.txt', bytes: bytesOf(5) });
  assert.deepEqual(fake.said.errors, [
    "memreplay can't save /full/report.txt: no space left on device",
  ]);
});

test('the command opens one file in the editor', async () => {
  const fake = started({});
  await fake.registered['memreplay.open'](HERE, [HERE]);
  await fake.registered['memreplay.open'](HERE);
  fake.api.chosen = [HERE];
  await fake.registered['memreplay.open']();
  const expected = ['vscode.openWith', HERE, EDITOR];
  assert.deepEqual(fake.said.commands, [expected, expected, expected]);
  assert.deepEqual(fake.said.panels, []);
});

test('the command without a file does nothing if the user chooses none', async () => {
  const fake = started({});
  await fake.registered['memreplay.open']();
  assert.deepEqual([fake.said.commands, fake.said.panels], [[], []]);
});

test('the command opens several files in one page', async () => {
  const paths = ['/runs/a/rank0/snap.pkl', '/runs/a/rank1/snap.pkl'];
  const fake = started(Object.fromEntries(paths.map((path) => [`file:${path}`, bytesOf(2)])));
  const uris = paths.map((path) => new Uri('file', path));
  await fake.registered['memreplay.open'](uris[1], uris);
  const [panel] = fake.said.panels;
  assert.equal(panel.title, 'rank0/snap.pkl, rank1/snap.pkl');
  assert.equal(panel.options.retainContextWhenHidden, true);
  await panel.webview.say({ what: 'ready' });
  assert.deepEqual(
    panel.webview.sent.map(({ what, path }) => [what, path]),
    [
      ['file', 'rank0/snap.pkl'],
      ['piece', undefined],
      ['file', 'rank1/snap.pkl'],
      ['piece', undefined],
      ['end', undefined],
    ],
  );
});

test('the manifest declares what the extension registers', () => {
  const { registered } = started({});
  const { customEditors, commands } = manifest.contributes;
  const declared = [customEditors[0].viewType, commands[0].command];
  assert.deepEqual(Object.keys(registered), declared);
  assert.equal(customEditors[0].priority, 'option');
  assert.equal(registered[EDITOR].options.webviewOptions.retainContextWhenHidden, true);
});

test("the menu and the editor are for the names that memreplay's pickles have", () => {
  const { customEditors, menus } = manifest.contributes;
  const [, pattern] = /=~ \/(.+)\/i$/.exec(menus['explorer/context'][0].when);
  const menu = new RegExp(pattern, 'i');
  const names = readFileSync(
    join(import.meta.dirname, '../../../src/memreplay/io/names.py'),
    'utf8',
  );
  const [, own] = /_PICKLE = re\.compile\(r"(.+)\\Z"/.exec(names);
  assert.equal(menu.source, `${own}$`);
  // The editor's patterns say the same, in braces instead of alternatives.
  const [, endings, packers] = /^\\\.\((.+)\)\(\\\.\((.+)\)\)\?$/.exec(own);
  const among = (text) => `{${text.replaceAll('|', ',')}}`;
  assert.deepEqual(
    customEditors[0].selector.map((one) => one.filenamePattern),
    [`*.${among(endings)}`, `*.${among(endings)}.${among(packers)}`],
  );
});
