// Makes the page in both forms: `node build.mjs PARTS OUT`. PARTS has what pack.mjs packed.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

const [parts, out] = process.argv.slice(2);
const NAMES = ['python.wasm', 'stdlib.zip', 'site.zip.zst', 'lock.json'];
const assets = '../src/memreplay/export/page/assets';
const version = /^version = "(.+)"/m.exec(readFileSync('../pyproject.toml', 'utf8'))[1];

// Pyodide refuses to start in a worker that has importScripts, because it would have to import modules. Here everything
// is loaded already.
const CLASSIC = 'self.importScripts = undefined;';

async function bundled(entry, first = '', given = {}) {
  const { outputFiles } = await build({
    entryPoints: [entry],
    banner: { js: first },
    bundle: true,
    minify: true,
    charset: 'utf8',
    format: 'iife',
    target: ['chrome123', 'firefox128', 'safari17.5'],
    write: false,
    // Node's modules, which Pyodide doesn't import in a browser.
    external: ['node:*', 'ws'],
    define: { 'import.meta.url': '"https://memreplay.invalid/"', ...given },
    legalComments: 'none',
    logLevel: 'error',
  });
  return outputFiles[0].text.trim();
}

const hash = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/** The policy: this page's own scripts and styles, those of memreplay's pages, and no connection. */
function policy(scripts, styles) {
  const own = (names) => names.map((name) => hash(readFileSync(join(assets, name)))).join(' ');
  return [
    "default-src 'none'",
    `script-src ${scripts} ${own(['viewer.js', 'fleet.js'])} ${hash(framed)} 'wasm-unsafe-eval'`,
    'worker-src blob:',
    'frame-src blob:',
    `style-src ${styles} ${own(['viewer.css'])}`,
    'img-src data: blob:',
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
}

const framed = await bundled('src/framed.ts');
const main = await bundled('src/main.ts', '', {
  FRAMED: JSON.stringify(framed),
  FRAMED_HASH: JSON.stringify(hash(framed)),
});
const worker = await bundled('src/worker.ts', CLASSIC);
const style = await bundled('src/style.css');
const files = { 'worker.js': worker };
for (const name of NAMES) files[name] = readFileSync(join(parts, name));
// What "Open an example" opens.
files['example.pkl.gz'] = readFileSync('../examples/serving_oom.pkl.gz');
const packed = {};
for (const [name, bytes] of Object.entries(files)) {
  const small = /\.(zst|gz)$/.test(name) ? bytes : gzipSync(bytes, { level: 9 });
  packed[name] = small.toString('base64');
}

const template = readFileSync('src/index.html', 'utf8');
function page(scripts, source) {
  const given = { POLICY: policy(source, hash(style)), VERSION: version, STYLE: style, SCRIPTS: scripts };
  return template.replace(/@([A-Z]+)@/g, (_, name) => given[name]);
}

mkdirSync(join(out, 'assets'), { recursive: true });
// One file: the parts are data, which no policy needs to allow.
const data = Object.entries(packed).map(([name, text]) => {
  return `<script type="text/plain" data-part="${name}">${text}</script>`;
});
const single = page([...data, `<script>${main}</script>`].join('\n'), hash(main));
writeFileSync(join(out, 'memreplay.html'), single);

// A site: parts are scripts, because the page mayn't fetch. Their names change with their contents.
function asset(name, text) {
  const file = `assets/${name}-${createHash('sha256').update(text).digest('hex').slice(0, 12)}.js`;
  writeFileSync(join(out, file), text);
  return `<script src="${file}" defer></script>`;
}
const loaded = Object.entries(packed).map(([name, text]) =>
  asset(name.replaceAll('.', '-'), `(self.memreplayParts??={})[${JSON.stringify(name)}]=${JSON.stringify(text)};\n`),
);
writeFileSync(join(out, 'index.html'), page([...loaded, asset('main', main)].join('\n'), "'self'"));
for (const [name, text] of Object.entries({ ...packed, 'main.js': main, 'memreplay.html': single })) {
  console.log(`${name}: ${Buffer.byteLength(text).toLocaleString('en')} bytes`);
}
