// A rank's name, as a link to its own page if there is one.

import type { PageRank } from '../../core/fleet.js';
import { rankName } from './words.js';
import { useWorld } from './world.js';

export function RankLink({ one }: { one: PageRank }) {
  const { page } = useWorld();
  const name = rankName(page, one);
  if (one.page === null) return name;
  return (
    <a
      href={one.page}
      title={`Open the page of ${name}`}
      onClick={(event) => event.stopPropagation()}
    >
      {name}
    </a>
  );
}
