// Shows memreplay's page in a webview: gives it the files that it asks for, and saves what the user saves there.

import * as vscode from 'vscode';
import type { FromHost, ToHost } from '../../../web/src/host.js';
import { within } from './names.js';

/** Files can only be read as a whole. */
const MOST_BYTES = 2 ** 31 - 1;
const PIECE_BYTES = 4 * 2 ** 20;

export async function show(
  webview: vscode.Webview,
  extension: vscode.Uri,
  uris: readonly vscode.Uri[],
): Promise<void> {
  // The page carries everything, and its policy allows no connection.
  webview.options = { enableScripts: true, localResourceRoots: [] };
  webview.onDidReceiveMessage((message: ToHost) =>
    message.what === 'ready' ? send(webview, uris) : save(uris[0]!, message.name, message.bytes),
  );
  const page = vscode.Uri.joinPath(extension, 'memreplay.html');
  webview.html = new TextDecoder().decode(await vscode.workspace.fs.readFile(page));
}

/** Sends the files one after another, so that only one is in memory here. */
async function send(webview: vscode.Webview, uris: readonly vscode.Uri[]): Promise<void> {
  const post = async (message: FromHost) => {
    try {
      return await webview.postMessage(message);
    } catch {
      return false; // it was closed
    }
  };
  const names = within(uris.map((uri) => uri.path));
  for (const [i, uri] of uris.entries()) {
    const path = names[i]!;
    const bytes = await read(uri).catch((error) => said(error));
    if (typeof bytes === 'string') {
      await post({ what: 'failed', reason: `memreplay: error: can't open ${path}: ${bytes}` });
      return;
    }
    if (!(await post({ what: 'file', path, size: bytes.length }))) return;
    for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
      // A copy, because VS Code sends the whole buffer below a view.
      const piece = new Uint8Array(bytes.subarray(at, at + PIECE_BYTES));
      if (!(await post({ what: 'piece', bytes: piece }))) return;
    }
  }
  await post({ what: 'end' });
}

async function read(uri: vscode.Uri): Promise<Uint8Array> {
  const { size, type } = await vscode.workspace.fs.stat(uri);
  if (type & vscode.FileType.Directory) throw new Error('it is a folder; choose the files in it');
  if (size > MOST_BYTES) {
    throw new Error(
      'VS Code reads at most 2 GiB. Open it with memreplay in a browser or in a terminal: pip install memreplay',
    );
  }
  return vscode.workspace.fs.readFile(uri);
}

/** Asks where to save, beside the snapshot at first. */
async function save(snapshot: vscode.Uri, name: string, bytes: Uint8Array): Promise<void> {
  // The page's names have no folders.
  const defaultUri = vscode.Uri.joinPath(snapshot, '..', name.replace(/.*[/\\]/s, ''));
  const target = await vscode.window.showSaveDialog({ defaultUri });
  if (!target) return;
  try {
    await vscode.workspace.fs.writeFile(target, bytes);
  } catch (error) {
    vscode.window.showErrorMessage(`memreplay can't save ${target.path}: ${said(error)}`);
  }
}

function said(error: unknown): string {
  const { code, message } = error as { code?: string; message?: string };
  if (code === 'FileNotFound') return "it doesn't exist any more";
  if (code === 'NoPermissions') return 'you may not do this; check its permissions';
  return message ?? String(error);
}
