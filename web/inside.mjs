// Runs pytest in Pyodide under node, with the wheel: `node inside.mjs ARGUMENT...`. Needs what ci/web puts in build/web.
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { loadPyodide } from 'pyodide';

const root = fileURLToPath(new URL('..', import.meta.url));
const built = `${root}build/web/`;
const wheels = ['inside', 'packages', 'dist'].flatMap((folder) =>
  readdirSync(built + folder)
    .filter((name) => name.endsWith('.whl'))
    .map((name) => `${built}${folder}/${name}`),
);

const env = { NO_COLOR: '1', PYTHONDONTWRITEBYTECODE: '1', MEMREPLAY_PROFILE: 'inside' };
const python = await loadPyodide({ env });
await python.loadPackage(wheels, { checkIntegrity: false, messageCallback: () => {} });
const { FS } = python;
FS.mkdir('/memreplay');
FS.mount(FS.filesystems.NODEFS, { root }, '/memreplay');
FS.chdir('/memreplay');
const { main } = python.pyimport('pytest');
const options = ['-p', 'no:cacheprovider', '-p', 'tests.web.inside', '-p', 'tests.bare', '--bare'];
process.exitCode = Number(main(python.toPy([...options, ...process.argv.slice(2)])));
