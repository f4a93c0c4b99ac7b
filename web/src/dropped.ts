// The files in what the user drops or chooses, with their folders.

/** As long as a name may be; the names of files made from it are longer. */
const MOST_BYTES = 200;

export interface Found {
  path: string;
  file: File;
}

/** Returns the files that were dropped, also those in folders. Raises an error if one can't be read. */
export async function filesOf(transfer: DataTransfer): Promise<Found[]> {
  // They're there only until the first wait.
  const items = [...transfer.items]
    .filter((item) => item.kind === 'file')
    .map((item: Droppable) => {
      const entry = item.webkitGetAsEntry?.() ?? null;
      const folder = entry?.isDirectory ? item.getAsFileSystemHandle?.() : null;
      return { entry, folder, file: item.getAsFile() };
    });
  const found: Found[] = [];
  for (const { entry, folder, file } of items) {
    if (folder) await open((await folder) as Folder, entry!.name, found);
    else if (entry?.isDirectory) await walk(entry as FileSystemDirectoryEntry, entry.name, found);
    else if (file) found.push({ path: file.name, file });
  }
  return found;
}

/** Chromium reads a folder's entries only for pages of a server, but its handle also for a page on the disk. */
interface Droppable extends DataTransferItem {
  getAsFileSystemHandle?: () => Promise<unknown>;
}

interface Folder {
  entries(): AsyncIterable<[string, Folder | { kind: 'file'; getFile(): Promise<File> }]>;
  kind: 'directory';
}

async function open(folder: Folder, path: string, found: Found[]): Promise<void> {
  for await (const [name, one] of folder.entries()) {
    const inner = `${path}/${name}`;
    if (one.kind === 'directory') await open(one, inner, found);
    else found.push({ path: inner, file: await one.getFile() });
  }
}

async function walk(folder: FileSystemDirectoryEntry, path: string, found: Found[]): Promise<void> {
  const reader = folder.createReader();
  // A reader gives a hundred at a time.
  for (;;) {
    const entries = await new Promise<FileSystemEntry[]>((done, failed) =>
      reader.readEntries(done, failed),
    );
    if (!entries.length) return;
    for (const entry of entries) {
      const inner = `${path}/${entry.name}`;
      if (entry.isDirectory) await walk(entry as FileSystemDirectoryEntry, inner, found);
      else {
        const file = await new Promise<File>((done, failed) =>
          (entry as FileSystemFileEntry).file(done, failed),
        );
        found.push({ path: inner, file });
      }
    }
  }
}

const PACKED = String.raw`(\.(gz|zst|zstd|xz|bz2|zip))?$`;
/** How snapshots are named, as in io/names.py. */
const KINDS = [
  new RegExp(String.raw`\.(pkl|pickle)${PACKED}`, 'i'),
  new RegExp(String.raw`\.json${PACKED}`, 'i'),
  /\.html?$/i,
];
const { compare } = new Intl.Collator('en', { numeric: true });

/** Returns the snapshots among the files in folders, in the order of their names, after the other files. */
export function snapshotsOf(found: readonly Found[]): Found[] {
  const single = found.filter(({ path }) => !path.includes('/'));
  const inside = found.filter(({ path }) => path.includes('/'));
  const kind = KINDS.find((one) => inside.some(({ path }) => one.test(path)));
  const snapshots = inside.filter(({ path }) => kind?.test(path));
  return [...single, ...snapshots.sort((a, b) => compare(a.path, b.path))];
}

/** Returns the files that were chosen. */
export function chosenFiles(input: HTMLInputElement): Found[] {
  return [...(input.files ?? [])].map((file) => ({
    path: file.webkitRelativePath || file.name,
    file,
  }));
}

/** Returns a path that no open file has, and that's no file's folder: a number goes before the first dot of the name. */
export function freePath(path: string, taken: Iterable<string>): string {
  const parts = path.split('/').map(cleaned).filter(Boolean);
  const name = parts.pop() ?? 'snapshot';
  const others = [...taken];
  const [top] = parts;
  for (let i = 2; others.some((other) => `${parts.join('/')}/`.startsWith(`${other}/`)); i++) {
    parts[0] = `${top}-${i}`;
  }
  const dot = name.indexOf('.', 1);
  const end = dot < 0 ? name.length : dot;
  for (let i = 1; ; i++) {
    const numbered = i === 1 ? name : `${name.slice(0, end)}-${i}${name.slice(end)}`;
    const one = [...parts, numbered].join('/');
    if (!others.some((other) => `${other}/`.startsWith(`${one}/`))) return one;
  }
}

/** Returns a name that a command line can spell and a file system can hold: empty for a folder's `.` and `..`. */
function cleaned(name: string): string {
  if (name === '.' || name === '..') return '';
  const letters = [...name.replace(/[\p{Cc}\p{Cs}\u2028\u2029]/gu, '_')];
  const bytes = new TextEncoder().encode(name).length;
  return bytes <= MOST_BYTES
    ? letters.join('')
    : [...letters.slice(0, 30), '…', ...letters.slice(-15)].join('');
}
