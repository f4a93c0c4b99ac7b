// Packs the parts that the page loads: `node pack.mjs SITE PARTS`. SITE has the packages, unpacked.
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { loadPyodide } from 'pyodide';

const [site, parts] = process.argv.slice(2);
const pyodide = dirname(fileURLToPath(import.meta.resolve('pyodide')));
mkdirSync(parts, { recursive: true });

const python = await loadPyodide();
// What the start needed, before this script's own imports.
const { FS } = python;
for (const [at, root] of [['/site', site], ['/parts', parts], ['/pyodide', pyodide]]) {
  FS.mkdir(at);
  FS.mount(FS.filesystems.NODEFS, { root }, at);
}
python.runPython(readFileSync(new URL('pack.py', import.meta.url), 'utf8'));
copyFileSync(join(pyodide, 'pyodide.asm.wasm'), join(parts, 'python.wasm'));
const { info } = JSON.parse(readFileSync(join(pyodide, 'pyodide-lock.json'), 'utf8'));
writeFileSync(join(parts, 'lock.json'), JSON.stringify({ info, packages: {} }));
