// The part of VS Code's API that the extension uses, in memory, and the extension loaded with it.
import { join } from 'node:path';
import { build } from 'esbuild';

export class Uri {
  constructor(scheme, path) {
    this.scheme = scheme;
    this.path = path;
  }
  static joinPath({ scheme, path }, ...more) {
    return new Uri(scheme, join(path, ...more));
  }
}

export class FileSystemError extends Error {
  constructor(code, message = code) {
    super(message);
    this.code = code;
  }
}

/** A webview that keeps what it's sent. */
export class Webview {
  options = {};
  html = '';
  sent = [];
  /** Messages that still get through. */
  left = Number.POSITIVE_INFINITY;
  onDidReceiveMessage(listener) {
    this.say = listener;
  }
  async postMessage(message) {
    if (this.left-- <= 0) return false;
    this.sent.push(message);
    return true;
  }
}

/** Returns the API around these files, by scheme and path; an error stands for a file that can't be read. */
export function fakeOf(files) {
  const said = { commands: [], errors: [], panels: [], offered: [], written: new Map() };
  const registered = {};
  const keyOf = ({ scheme, path }) => `${scheme}:${path}`;
  const found = (uri) => {
    const one = files[keyOf(uri)] ?? new FileSystemError('FileNotFound');
    if (one instanceof Error) throw one;
    return one;
  };
  const api = {
    Uri,
    FileType: { Unknown: 0, File: 1, Directory: 2, SymbolicLink: 64 },
    ViewColumn: { Active: -1 },
    window: {
      registerCustomEditorProvider: (type, editor, options) => {
        registered[type] = { editor, options };
      },
      createWebviewPanel: (type, title, column, options) => {
        const panel = { type, title, column, options, webview: new Webview() };
        said.panels.push(panel);
        return panel;
      },
      showOpenDialog: async () => api.chosen,
      showSaveDialog: async ({ defaultUri }) => {
        said.offered.push(keyOf(defaultUri));
        return api.target;
      },
      showErrorMessage: (text) => said.errors.push(text),
    },
    commands: {
      registerCommand: (name, run) => {
        registered[name] = run;
      },
      executeCommand: async (...words) => void said.commands.push(words),
    },
    workspace: {
      fs: {
        stat: async (uri) => {
          const one = found(uri);
          return { type: one.type ?? 1, size: one.size ?? one.length };
        },
        readFile: async (uri) => found(uri),
        writeFile: async (uri, bytes) => {
          if (api.full) throw api.full;
          said.written.set(keyOf(uri), bytes);
        },
      },
    },
  };
  return { api, said, registered };
}

const { outputFiles } = await build({
  entryPoints: [join(import.meta.dirname, '../src/extension.ts')],
  bundle: true,
  format: 'cjs',
  external: ['vscode'],
  write: false,
});

/** Starts the extension among these files, with its page. */
export function started(files) {
  const page = new TextEncoder().encode('<p>the page</p>');
  const fake = fakeOf({ 'file:/extension/memreplay.html': page, ...files });
  const module = { exports: {} };
  new Function('require', 'module', outputFiles[0].text)(() => fake.api, module);
  module.exports.activate({ extensionUri: new Uri('file', '/extension'), subscriptions: [] });
  return fake;
}
