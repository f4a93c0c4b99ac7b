// Modules without types of their own.

declare module 'pyodide/pyodide.asm.mjs' {
  const create: (settings: unknown) => Promise<unknown>;
  export default create;
}

declare module '*.css' {}
