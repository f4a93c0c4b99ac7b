// Runs command lines like the page's worker, in node: `node run.mjs FOLDER LINE...`. FOLDER has the files. Prints what
// each did as a line of JSON; what it wrote, in base64.
import { fileURLToPath } from 'node:url';
import { loadPyodide } from 'pyodide';

const [root, ...lines] = process.argv.slice(2);
const parts = new URL('../build/web/parts/', import.meta.url);

const python = await loadPyodide({ stdLibURL: fileURLToPath(new URL('stdlib.zip', parts)), env: { NO_COLOR: '1' } });
const { FS } = python;
FS.mkdir('/parts');
FS.mount(FS.filesystems.NODEFS, { root: fileURLToPath(parts) }, '/parts');
python.runPython(`
import io, site, zipfile
from compression import zstd
with open("/parts/site.zip.zst", "rb") as file:
    zipfile.ZipFile(io.BytesIO(zstd.decompress(file.read()))).extractall(site.getsitepackages()[0])
`);
FS.mkdir('/snapshots');
FS.mount(FS.filesystems.NODEFS, { root }, '/snapshots');
FS.mkdir('/files');
FS.chdir('/files');
for (const name of FS.readdir('/snapshots')) {
  if (!name.startsWith('.')) FS.symlink(`/snapshots/${name}`, name);
}
python.globals.set('lines', python.toPy(lines));
python.runPython(`
import json, session
from base64 import b64encode
session.load()
for line in lines:
    ran = session.run(line, 100)
    written = {name: b64encode(data).decode() for name, data in ran.written.items()}
    print(json.dumps(ran._replace(written=written)._asdict()))
`);
