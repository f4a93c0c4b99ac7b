// Bundles the page's script and its style into the Python package, and says how large they are.
// `node build.mjs FOLDER` writes them elsewhere, to be compared.
import { readFileSync, rmSync, statSync } from 'node:fs';
import { build } from 'esbuild';

const folder = process.argv[2] ?? '../src/memreplay/export/page/assets';

// What is in the bundle and is not the project's: its licence goes with each copy, and a page is one.
const LIBRARIES = ['preact', '@preact/signals', '@preact/signals-core'];

function licences() {
  const texts = LIBRARIES.map((name) => readFileSync(`node_modules/${name}/LICENSE`, 'utf8'));
  const holders = texts.map((text, i) => `${LIBRARIES[i]}: ${/Copyright.*/.exec(text)[0]}`);
  const terms = texts.map((text) => text.slice(text.indexOf('Permission')).replace(/\s+/g, ' ').trim());
  if (new Set(terms).size !== 1) throw new Error('the licences are not all the same MIT licence');
  return `/*! With these libraries, under the MIT licence:\n${holders.join('\n')}\n${terms[0]} */`;
}

await build({
  banner: { js: licences() },
  entryPoints: { viewer: 'src/main.tsx', fleet: 'src/fleet.tsx' },
  bundle: true,
  minify: true,
  charset: 'utf8',
  format: 'iife',
  target: ['chrome111', 'firefox115', 'safari16.4'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'none',
  outdir: folder,
  logLevel: 'warning',
});
// Both have the same style.
rmSync(`${folder}/fleet.css`);
for (const name of ['viewer.js', 'viewer.css', 'fleet.js']) {
  console.log(`${name}: ${statSync(`${folder}/${name}`).size} bytes`);
}
