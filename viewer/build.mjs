// Bundles the page's script and its style into the Python package, and says how large they are.
// `node build.mjs FOLDER` writes them elsewhere, to be compared.
import { statSync } from 'node:fs';
import { build } from 'esbuild';

const folder = process.argv[2] ?? '../src/memreplay/export/page/assets';

await build({
  entryPoints: { viewer: 'src/main.tsx' },
  bundle: true,
  minify: true,
  charset: 'utf8',
  format: 'iife',
  target: ['chrome111', 'firefox115', 'safari16.4'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'inline',
  outdir: folder,
  logLevel: 'warning',
});
for (const name of ['viewer.js', 'viewer.css']) {
  console.log(`${name}: ${statSync(`${folder}/${name}`).size} bytes`);
}
