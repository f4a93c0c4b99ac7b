// The extension's two ways to open snapshots: the read-only editor, and the command in the explorer's menu.

import * as vscode from 'vscode';
import { within } from './names.js';
import { show } from './show.js';

const EDITOR = 'memreplay.snapshot';
// A page that is hidden keeps what it has read and what it shows.
const KEPT = { retainContextWhenHidden: true };

export function activate({ extensionUri, subscriptions }: vscode.ExtensionContext): void {
  const editor: vscode.CustomReadonlyEditorProvider = {
    openCustomDocument: (uri) => ({ uri, dispose() {} }),
    resolveCustomEditor: ({ uri }, { webview }) => show(webview, extensionUri, [uri]),
  };
  subscriptions.push(
    vscode.window.registerCustomEditorProvider(EDITOR, editor, { webviewOptions: KEPT }),
    vscode.commands.registerCommand('memreplay.open', (clicked, chosen) =>
      open(extensionUri, clicked, chosen),
    ),
  );
}

/** Opens one file in an editor, or several in one page, which compares them. */
async function open(
  extension: vscode.Uri,
  clicked?: vscode.Uri,
  chosen?: vscode.Uri[],
): Promise<void> {
  const uris = chosen?.length ? chosen : clicked ? [clicked] : await asked();
  const [first, second] = uris;
  if (!first) return;
  if (!second) {
    await vscode.commands.executeCommand('vscode.openWith', first, EDITOR);
    return;
  }
  const title = within(uris.map((uri) => uri.path)).join(', ');
  const column = vscode.ViewColumn.Active;
  const panel = vscode.window.createWebviewPanel('memreplay.snapshots', title, column, KEPT);
  await show(panel.webview, extension, uris);
}

async function asked(): Promise<vscode.Uri[]> {
  const openLabel = 'Open with memreplay';
  return (await vscode.window.showOpenDialog({ canSelectMany: true, openLabel })) ?? [];
}
