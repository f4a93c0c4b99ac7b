// Installs the wheel in Pyodide with micropip, as JupyterLite does, and runs Python: `node install.mjs FOLDER CODE`. FOLDER
// is the working folder. Needs what ci/web puts in build/web.
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { loadPyodide } from 'pyodide';

const [root, code] = process.argv.slice(2);
const built = fileURLToPath(new URL('../build/web/', import.meta.url));
const wheelsIn = (folder) => readdirSync(built + folder).filter((name) => name.endsWith('.whl'));

const python = await loadPyodide({ env: { NO_COLOR: '1' } });
await python.loadPackage(
  wheelsIn('micropip').map((name) => `${built}micropip/${name}`),
  { checkIntegrity: false, messageCallback: () => {} },
);
const { FS } = python;
for (const [mount, folder] of [['/built', built], ['/work', root]]) {
  FS.mkdir(mount);
  FS.mount(FS.filesystems.NODEFS, { root: folder }, mount);
}
FS.chdir('/work');
const wheels = ['packages', 'dist'].flatMap((folder) => wheelsIn(folder).map((name) => `emfs:/built/${folder}/${name}`));
await python.pyimport('micropip').install.callKwargs(wheels, { deps: false });
python.runPython(code);
