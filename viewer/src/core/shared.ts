// Which groups have their own colour: the same name has the same colour in all pictures.

/** The groups of one picture. */
export interface Side {
  /** How much of the picture each group fills, as in prominence.ts. */
  readonly sums: Float64Array;
  /** The width of the picture: its number of moments. */
  readonly moments: number;
  /** A group's full name; null if it never has its own colour. */
  name(group: number): string | null;
}

/** Returns each side's groups with their own colour, as pairs of the group and the number of its
 * colour, in the order of the colours. Names that fill most of all pictures together come first. */
export function shared(
  sides: readonly Side[],
  most: number,
): (readonly [group: number, colour: number])[][] {
  const found = new Map<string, { share: number; groups: (number | undefined)[] }>();
  for (const [side, { sums, moments, name }] of sides.entries()) {
    for (const [group, sum] of sums.entries()) {
      const text = sum > 0 ? name(group) : null;
      if (text === null) continue;
      const one = found.get(text) ?? { share: 0, groups: [] };
      // Groups of one picture with the same name stay apart.
      const key = one.groups[side] === undefined ? text : `${text}\n#${group}`;
      const own = key === text ? one : { share: 0, groups: [] };
      own.share += sum / moments;
      own.groups[side] = group;
      found.set(key, own);
    }
  }
  // Sorting is stable: equal shares stay in the order of sides and groups.
  const first = [...found.values()].sort((a, b) => b.share - a.share).slice(0, most);
  return sides.map((_, side) =>
    first.flatMap(({ groups }, colour) => {
      const group = groups[side];
      return group === undefined ? [] : [[group, colour] as const];
    }),
  );
}

/** Returns the colours of a picture's names, which are shown one picture after another: a name keeps
 * the colour that it had before, and a new one gets a free one. `before` has the names so far. */
export function kept(
  before: Map<string, number>,
  names: readonly string[],
  most: number,
): readonly number[] {
  const used = new Set<number>();
  const found = names.map((name) => {
    const colour = before.get(name) ?? -1;
    if (colour < 0 || used.has(colour)) return -1;
    used.add(colour);
    return colour;
  });
  const taken = new Set(before.values());
  for (const [i, name] of names.entries()) {
    if (found[i]! >= 0) continue;
    const free = Array.from({ length: most }, (_, one) => one).filter((one) => !used.has(one));
    const colour = free.find((one) => !taken.has(one)) ?? free[0];
    if (colour === undefined) continue;
    found[i] = colour;
    used.add(colour);
    taken.add(colour);
    before.set(name, colour);
  }
  return found;
}
