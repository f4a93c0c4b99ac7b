// A rank's details: what it held at its peak, what is odd about it, and commands that show more.

import type { ComponentChildren } from 'preact';
import { bytesAt, type PageRank, type PageShare } from '../../core/fleet.js';
import { copyText, DoneButton } from '../copying.js';
import { quoted } from '../quoting.js';
import { count, percent, size } from '../units.js';
import { change, state } from './state.js';
import { briefly, momentName, overWords, rankName, troubleWords } from './words.js';
import { useWorld } from './world.js';

function Shares({
  title,
  shares,
  of,
}: {
  title: string;
  shares: readonly PageShare[];
  of: number;
}) {
  const { page } = useWorld();
  if (!shares.length) return null;
  const names = briefly(shares.map(({ text }) => page.texts[text] ?? ''));
  return (
    <>
      <h3>{title}</h3>
      <ul class="parts">
        {shares.map(({ text, bytes }, i) => (
          <li key={text}>
            <span class="name" title={page.texts[text]}>
              {names[i]}
            </span>
            <span class="number">{size(bytes)}</span>
            <span class="number share">{of ? percent(bytes / of) : ''}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

function Command({ words }: { words: readonly string[] }) {
  const line = `memreplay ${words.map(quoted).join(' ')}`;
  return (
    <p class="line">
      <code class="command" title={line}>
        {line}
      </code>
      <DoneButton label="copy" title="Copy the command" done="copied" act={() => copyText(line)} />
    </p>
  );
}

type Pairs = readonly (readonly [string, ComponentChildren])[];

function pairsOf(one: PageRank, median: number): Pairs {
  const over = overWords(one.peak_bytes, median);
  const all: Pairs = [
    ['peak', `${size(one.peak_bytes)} (${count(one.peak_bytes)} bytes)`],
    ['vs. median', over && `${over} (${size(median)})`],
    ['in step', one.step === null ? '' : count(one.step)],
    ['reserved', one.reserved_bytes === null ? '' : size(one.reserved_bytes)],
    ['headroom', one.headroom_bytes === null ? '' : size(one.headroom_bytes)],
    ['host', one.host ?? ''],
    ['device', one.device === null ? '' : String(one.device)],
    ['file', one.file],
  ];
  return all.filter(([, value]) => value !== '');
}

export function Details() {
  const { page, curves, median, lying } = useWorld();
  const { rank, moment } = state.value;
  const one = rank === null ? undefined : page.ranks[rank];
  if (!one || rank === null) {
    return (
      <section class="details">
        <p class="dim">
          Click a {page.noun}, or use the arrow keys in the picture: what it held, and what sets it
          apart.
        </p>
      </section>
    );
  }
  const trouble = troubleWords(one);
  const group = one.group === null ? undefined : page.groups[one.group];
  const typical = page.ranks.find((other) => other.rank === one.typical && one.typical !== null);
  const now = moment === null ? Number.NaN : bytesAt(curves, rank, moment);
  return (
    <section class="details" data-what="details" data-rank={one.rank ?? ''}>
      <button
        type="button"
        class="close"
        aria-label="Close"
        onClick={() => change({ rank: null, moment: null })}
      >
        ×
      </button>
      <h2>{rankName(page, one)}</h2>
      {one.page !== null && (
        <p>
          <a href={one.page} title="Enter, or double-click the row in the picture">
            Open its page
          </a>
        </p>
      )}
      {trouble && <p class="warning">{trouble}</p>}
      {one.device !== null && (
        <dl class="pairs">
          {pairsOf(one, median).map(([name, value]) => (
            <>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </>
          ))}
          {moment !== null && !Number.isNaN(now) && (
            <>
              <dt>{momentName(page, moment, curves.moments)}</dt>
              <dd data-what="moment-bytes" data-bytes={now}>
                {size(now)}, {overWords(now, lying[moment]!.median)} vs. the median of all
              </dd>
            </>
          )}
        </dl>
      )}
      {group && group.name !== rankName(page, one) && <p class="dim">Alike: {group.name}</p>}
      {group && group.differs.length > 0 && (
        <>
          <h3>beside the largest group</h3>
          <ul class="parts">
            {briefly(group.differs).map((line, i) => (
              <li key={line}>
                <span class="name" title={group.differs[i]}>
                  {line}
                </span>
              </li>
            ))}
          </ul>
        </>
      )}
      <Shares title="at its peak" shares={one.categories} of={one.peak_bytes} />
      <Shares title="largest holders" shares={one.holders} of={one.peak_bytes} />
      <Command words={['view', one.file]} />
      {typical && <Command words={['diff', typical.file, one.file]} />}
    </section>
  );
}
