// Modules without types of their own.

declare module 'pyodide/pyodide.asm.mjs' {
  const create: (settings: unknown) => Promise<unknown>;
  export default create;
}

declare module '*.css' {}

/** What build.mjs puts in: the script for the frame, and its hash for a policy. */
declare const FRAMED: string;
declare const FRAMED_HASH: string;
