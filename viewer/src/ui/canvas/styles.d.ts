// Style sheets imported by components; esbuild adds them to the page's style sheet.
declare module '*.css';
