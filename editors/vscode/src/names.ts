// The names of files in the page.

/** Returns each path without the folders that all share. */
export function within(paths: readonly string[]): string[] {
  const split = paths.map((path) => path.split('/'));
  const [first = []] = split;
  let shared = 0;
  const goesOn = (parts: string[]) => parts[shared] === first[shared] && shared < parts.length - 1;
  while (split.every(goesOn)) shared++;
  return split.map((parts) => parts.slice(shared).join('/'));
}
