// The page inside an editor: the editor hands over the open files, and keeps what the user saves.

import type { Found } from './dropped.js';
import type { Progress } from './protocol.js';

/** What the editor tells the page. Each file is a `file`, its `piece`s in order, and at last one `end` for all. */
export type FromHost =
  | { what: 'file'; path: string; size: number }
  | { what: 'piece'; bytes: Uint8Array<ArrayBuffer> }
  | { what: 'end' }
  /** A file can't be read. */
  | { what: 'failed'; reason: string };

export type ToHost =
  /** The page waits for files. */
  { what: 'ready' } | { what: 'save'; name: string; bytes: Uint8Array };

interface Page {
  add: (found: Found[]) => void;
  reading: (progress: Progress) => void;
  explain: (lines: string[], error: boolean) => void;
}

interface Editor {
  postMessage: (message: ToHost) => void;
}

const { acquireVsCodeApi } = globalThis as { acquireVsCodeApi?: () => Editor };
const editor = acquireVsCodeApi?.();
/** What each URL leads to: the policy doesn't allow the page to fetch it. */
const blobs = new Map<string, Blob>();

/** Returns a URL for the user to save. */
export function urlOf(parts: BlobPart[], type: string): string {
  const blob = new Blob(parts, { type });
  const url = URL.createObjectURL(blob);
  if (editor) blobs.set(url, blob);
  return url;
}

export function revoke(url: string): void {
  URL.revokeObjectURL(url);
  blobs.delete(url);
}

/** Takes files from the editor; does nothing in a browser. */
export function attach(page: Page): void {
  if (!editor) return;
  addEventListener('message', (event: MessageEvent<FromHost>) => {
    // The frame with the interactive page has another origin.
    if (event.origin === origin) take(page, event.data);
  });
  // Editors don't follow links to blobs.
  addEventListener('click', (event) => void save(editor, event), { capture: true });
  followTheme();
  editor.postMessage({ what: 'ready' });
}

/** The files so far, and the pieces of the last. */
let files: { path: string; size: number; pieces: Uint8Array<ArrayBuffer>[] }[] = [];

function take({ add, reading, explain }: Page, message: FromHost): void {
  const last = files.at(-1);
  if (message.what === 'file') {
    files.push({ path: message.path, size: message.size, pieces: [] });
  } else if (message.what === 'piece' && last) {
    last.pieces.push(message.bytes);
    const done = last.pieces.reduce((sum, { length }) => sum + length, 0);
    reading({ path: last.path, done, total: last.size });
  } else if (message.what === 'end') {
    add(files.map(({ path, pieces }) => ({ path, file: new File(pieces, path) })));
    files = [];
  } else if (message.what === 'failed') {
    files = [];
    explain([message.reason], true);
  }
}

async function save(to: Editor, event: MouseEvent): Promise<void> {
  const anchor = (event.target as Element).closest<HTMLAnchorElement>('a[download]');
  const blob = anchor && blobs.get(anchor.href);
  if (!anchor || !blob) return;
  event.preventDefault();
  event.stopPropagation();
  const bytes = new Uint8Array(await blob.arrayBuffer());
  to.postMessage({ what: 'save', name: anchor.download, bytes });
}

/** Shows the page, and the one in the frame, as dark or light as the editor. */
function followTheme(): void {
  const { body } = document;
  const frame = document.getElementById('page') as HTMLIFrameElement;
  const follow = () => {
    const kind = body.dataset['vscodeThemeKind'];
    if (!kind) return;
    const dark = !/light/.test(kind);
    document.documentElement.style.colorScheme = dark ? 'dark' : 'light';
    frame.contentWindow?.postMessage({ dark }, '*');
  };
  frame.addEventListener('load', follow);
  new MutationObserver(follow).observe(body, { attributeFilter: ['data-vscode-theme-kind'] });
  follow();
}
