// Style sheets that components import: esbuild puts them into the page's.
declare module '*.css';
