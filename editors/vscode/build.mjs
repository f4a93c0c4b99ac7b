// Makes the extension around memreplay's page: `node build.mjs PAGE VSIX`.
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createVSIX } from '@vscode/vsce';
import { build } from 'esbuild';

const [page, vsix] = process.argv.slice(2).map((path) => resolve(path));
const root = join(import.meta.dirname, '..', '..');
const own = (name) => join(import.meta.dirname, name);
const version = /^version = "(.+)"/m.exec(readFileSync(join(root, 'pyproject.toml'), 'utf8'))[1];
const { scripts, devDependencies, ...manifest } = JSON.parse(readFileSync(own('package.json')));

const folder = mkdtempSync(join(tmpdir(), 'memreplay-vscode-'));
try {
  await build({
    entryPoints: [own('src/extension.ts')],
    bundle: true,
    minify: true,
    format: 'cjs',
    target: 'es2022',
    external: ['vscode'],
    outfile: join(folder, 'extension.js'),
    logLevel: 'error',
  });
  writeFileSync(
    join(folder, 'package.json'),
    JSON.stringify({ ...manifest, version, files: ['*'] }, null, 2),
  );
  copyFileSync(page, join(folder, 'memreplay.html'));
  copyFileSync(own('README.md'), join(folder, 'README.md'));
  copyFileSync(join(root, 'LICENSE'), join(folder, 'LICENSE'));
  await createVSIX({
    cwd: folder,
    packagePath: vsix,
    dependencies: false,
    allowMissingRepository: true,
  });
} finally {
  rmSync(folder, { recursive: true });
}
