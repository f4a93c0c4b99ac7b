// The worker: Python and memreplay. It reads files piece by piece, so that they are never in memory as a whole,
// and it never touches the network.

import { loadPyodide, type PyodideInterface } from 'pyodide';
import type { PyCallable, PyProxy } from 'pyodide/ffi';
import createPyodideModule from 'pyodide/pyodide.asm.mjs';
import { bytesOf, unpacked } from './packed.js';
import type { FromWorker, Opened, Part, Parts, Ran, ToWorker, Written } from './protocol.js';
import { PARTS } from './protocol.js';

const FOLDER = '/files';
const MOUNTS = '/mounts';
/** Folders whose files the user couldn't save. */
const CLOSED = ['/', '/dev', '/home', '/home/pyodide', '/lib', '/proc', '/tmp'];
const PROGRESS_MS = 50;
/** Emscripten's number for an I/O error. */
const EIO = 29;
const UNPACK = `
import io, os, site, zipfile
from compression import zstd
with open("/site.zip.zst", "rb") as file:
    packages = zipfile.ZipFile(io.BytesIO(zstd.decompress(file.read())))
packages.extractall(site.getsitepackages()[0])
os.unlink("/site.zip.zst")
del packages
`;

/** Where each open file is, and what it's called there. */
const mounts = new Map<string, string>();
const paths = new Map<Blob, string>();
let started: Promise<Session> | null = null;
let mounted = 0;

type Bytes = Uint8Array<ArrayBuffer>;

interface Session {
  python: PyodideInterface;
  run: PyCallable;
  /** Drops what was read of a file. */
  forget: PyCallable;
}

function tell(message: FromWorker, transferred: Transferable[] = []): void {
  postMessage(message, { transfer: transferred });
}

/** Answers Pyodide's requests from the parts. */
function serve(parts: Parts): void {
  globalThis.fetch = async (input) => {
    const url = input instanceof Request ? input.url : String(input);
    const name = url.slice(url.lastIndexOf('/') + 1).replace('pyodide.asm.', 'python.');
    if (!PARTS.includes(name as Part)) throw new TypeError(`${name} isn't here`);
    const type = name.endsWith('.wasm') ? 'application/wasm' : 'application/octet-stream';
    return unpacked(parts[name as Part], type);
  };
}

async function start(parts: Parts): Promise<Session> {
  const began = performance.now();
  serve(parts);
  const base = 'https://memreplay.invalid/';
  const python = await loadPyodide({
    createPyodideModule,
    indexURL: base,
    stdLibURL: `${base}stdlib.zip`,
    lockFileContents: await unpacked(parts['lock.json'], 'application/json').text(),
    stdin: () => null,
    env: {
      HOME: '/home/pyodide',
      NO_COLOR: '1',
      TZ: Intl.DateTimeFormat().resolvedOptions().timeZone,
    },
  } as Parameters<typeof loadPyodide>[0]);
  python.FS.writeFile('/site.zip.zst', bytesOf(parts['site.zip.zst']));
  python.runPython(UNPACK);
  python.FS.mkdir(FOLDER);
  python.FS.mkdir(MOUNTS);
  python.FS.chdir(FOLDER);
  for (const folder of CLOSED) python.FS.chmod(folder, 0o555);
  watchReading(python);
  const session = python.pyimport('session');
  session['load']();
  const run = session['run'];
  const forget = session['kept'].forget;
  tell({ what: 'ready', took: performance.now() - began });
  importAhead(session['ahead'], 0);
  return { python, run, forget };
}

/** Imports modules one after another; messages that arrive meanwhile come first. */
function importAhead(ahead: PyCallable, number: number): void {
  setTimeout(() => {
    if (ahead(number)) importAhead(ahead, number + 1);
  });
}

/** Tells the page how far a file has been read. */
function watchReading(python: PyodideInterface): void {
  const operations = python.FS.filesystems.WORKERFS.stream_ops;
  const { read } = operations;
  let last = 0;
  operations.read = (stream: Stream, ...rest: unknown[]): number => {
    let count: number;
    try {
      count = read(stream, ...rest);
    } catch {
      // The browser refuses files that changed after they were opened.
      throw new python.FS.ErrnoError(EIO);
    }
    const now = performance.now();
    if (now - last > PROGRESS_MS) {
      last = now;
      const { size: total, contents } = stream.node;
      const path = paths.get(contents) ?? '';
      tell({ what: 'progress', path, done: stream.position + count, total });
    }
    return count;
  };
}

interface Stream {
  position: number;
  node: { size: number; contents: Blob };
}

function open({ FS }: PyodideInterface, { path, file }: Opened): void {
  const folder = path.split('/').slice(0, -1).join('/');
  if (folder) FS.mkdirTree(`${FOLDER}/${folder}`);
  const mount = `${MOUNTS}/${++mounted}`;
  FS.mkdir(mount);
  FS.mount(FS.filesystems.WORKERFS, { blobs: [{ name: 'file', data: file }] }, mount);
  FS.symlink(`${mount}/file`, `${FOLDER}/${path}`);
  mounts.set(path, mount);
  paths.set(file, path);
}

function close({ python: { FS }, forget }: Session, path: string): void {
  forget(path);
  FS.unlink(`${FOLDER}/${path}`);
  const mount = mounts.get(path);
  if (mount) FS.unmount(mount);
  mounts.delete(path);
}

function ran({ python, run }: Session, line: string, columns: number): Ran {
  const began = performance.now();
  const result: PyProxy = run(line, columns);
  const [code, text, said, files] = result.toJs({
    dict_converter: (entries: Iterable<[string, Bytes]>) => [...entries],
  }) as [number, string, string, [string, Bytes][]];
  result.destroy();
  const written: Written[] = files.map(([name, bytes]) => ({ name, bytes }));
  const took = performance.now() - began;
  return { code, text, said, written, took, heap: heapOf(python) };
}

function heapOf(python: PyodideInterface): number {
  return (python as unknown as { _module: { HEAPU8: Uint8Array } })._module.HEAPU8.length;
}

/** Returns an error's message in one line: of a traceback the last. */
function reasonOf(error: unknown): string {
  const {
    name = '',
    message = '',
    errno,
  } = error as { name?: string; message?: string; errno?: number };
  const said = message.trim().split('\n').at(-1);
  return said || (errno === undefined ? String(error) : `${name} ${errno}`);
}

async function take(message: ToWorker): Promise<void> {
  const number = message.what === 'run' ? message.number : null;
  try {
    if (message.what === 'start') {
      started = start(message.parts);
      await started;
      return;
    }
    const session = await started;
    if (!session) return;
    if (message.what === 'open') for (const one of message.opened) open(session.python, one);
    else if (message.what === 'close') for (const one of message.paths) close(session, one);
    else {
      const result = ran(session, message.line, message.columns);
      tell(
        { what: 'ran', number: message.number, ran: result },
        result.written.map((one) => one.bytes.buffer),
      );
    }
  } catch (error) {
    tell({ what: 'broken', number, reason: reasonOf(error) });
  }
}

addEventListener('message', ({ data }: MessageEvent<ToWorker>) => void take(data));
