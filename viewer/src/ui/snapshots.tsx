// Which of a page's snapshots is shown: one of several ranks, or A or B of two that are compared.

import type { PageData } from '../core/page.js';
import { switchTo, syncOf, useCompared } from './comparing.js';
import { type Ground, useGround } from './ground.js';
import { ALL } from './moving.js';
import { change, type State, SYNCS, type Sync } from './state.js';
import { count, signedSize, size } from './units.js';

/** Names up to this length stay whole. */
const FITS = 20;

/** The names of two compared snapshots. */
export const LETTERS = ['A', 'B'];

/** Resets the state that is specific to another device. */
export const ELSEWHERE: Partial<State> = {
  ...ALL,
  at: null,
  other: null,
  pin: null,
  group: null,
  zoom: '',
  address: '',
  file: null,
};

type Pair = readonly [Ground, Ground];

/** Shows one of the page's snapshots. */
function show(ground: Ground, pair: Pair | null, snapshot: number): void {
  if (snapshot === ground.place.snapshot) return;
  const other = pair?.[snapshot];
  if (other) switchTo(ground, other);
  else change({ ...ELSEWHERE, snapshot, device: 0 });
}

/** Shows the next or previous snapshot. */
export function showNext(ground: Ground, pair: Pair | null, step: 1 | -1): void {
  const { length } = ground.page.snapshots;
  show(ground, pair, (ground.place.snapshot + step + length) % length);
}

/** A snapshot's highest peak on any of its devices. */
function peakOf({ devices }: PageData, { measure }: State): string {
  return size(Math.max(0, ...devices.map(({ peaks }) => peaks[measure].bytes)));
}

/** Names without the words that all begin with, for narrow places. */
export function withoutCommon(names: readonly string[]): string[] {
  const [first = ''] = names;
  if (names.every((one) => one.length <= FITS || one === first)) return [...names];
  let same = 0;
  for (let i = 0; i < first.length && names.every((one) => one[i] === first[i]); i++) {
    if (/[^a-zA-Z0-9]/.test(first[i]!)) same = i + 1;
  }
  return same ? names.map((one) => `…${one.slice(same)}`) : [...names];
}

/** Chooses a snapshot: each with its peak. */
export function Picker() {
  const ground = useGround();
  const pair = useCompared();
  const { page, place, state } = ground;
  if (page.kind === 'one' || page.snapshots.length < 2) return null;
  if (page.kind === 'compare') {
    const names = withoutCommon(page.snapshots.map(({ name }) => name));
    return (
      <fieldset class="choice picker" data-what="picker">
        <legend class="unseen">
          The snapshot shown in the header, the legend and the tabs (b)
        </legend>
        {page.snapshots.map((one, i) => (
          <button
            key={LETTERS[i]}
            type="button"
            aria-pressed={i === place.snapshot}
            title={`${one.file}: show it in the header, the legend and the tabs (b)`}
            disabled={!one.devices.length}
            onClick={() => show(ground, pair, i)}
          >
            <b>{LETTERS[i]}</b> <span class="name">{names[i]}</span> {peakOf(one, state)}
          </button>
        ))}
      </fieldset>
    );
  }
  return (
    <label class="field">
      rank{' '}
      <select
        data-what="picker"
        value={place.snapshot}
        title="Next and previous rank: b, B"
        onChange={(event) => show(ground, pair, Number(event.currentTarget.value))}
      >
        {page.snapshots.map((one, i) => (
          <option key={one.name} value={i}>
            {`${one.name}: ${peakOf(one, state)}`}
          </option>
        ))}
      </select>
    </label>
  );
}

/** What the cursors of two snapshots are synchronised by. */
export function SyncSelect() {
  const ground = useGround();
  const pair = useCompared();
  if (!pair) return null;
  const [a, b] = [pair[0].device, pair[1].device];
  const steps = [a, b].every(({ marks }) => marks.some(({ kind }) => kind === 'step'));
  const names: Record<Sync, string> = {
    step: steps ? 'step' : 'share',
    time: 'time',
    event: 'event',
  };
  return (
    <label
      class="field"
      title="How both cursors and pictures match: without steps, by their share of the recording"
    >
      in sync by{' '}
      <select
        data-what="sync"
        value={syncOf(ground.state, a, b)}
        onChange={(event) => change({ sync: event.currentTarget.value as Sync })}
      >
        {SYNCS.filter((one) => one !== 'time' || (a.last_us !== null && b.last_us !== null)).map(
          (one) => (
            <option key={one} value={one}>
              {names[one]}
            </option>
          ),
        )}
      </select>
    </label>
  );
}

/** The peaks of both snapshots, and their difference. */
export function BothPeaks({ pair }: { pair: Pair }) {
  const { measure } = pair[0].state;
  const [a = 0, b = 0] = pair.map(({ device }) => device.peaks[measure].bytes);
  return (
    <div>
      <dt>
        <button
          type="button"
          class="plain"
          title="Put each cursor on its peak (m)"
          onClick={() => change({ at: null, from: null, to: null })}
        >
          peaks
        </button>
      </dt>
      <dd>
        {[a, b].map((bytes, i) => (
          <span
            key={LETTERS[i]}
            data-what={`peak-${i}`}
            data-bytes={bytes}
            title={`${count(bytes)} bytes`}
          >
            {i > 0 && ' → '}
            <span class="dim">{LETTERS[i]}</span> {size(bytes)}
          </span>
        ))}{' '}
        <span class="dim">{measure},</span>{' '}
        <span
          class={b > a ? 'more' : b < a ? 'less' : ''}
          data-what="peak-difference"
          data-bytes={b - a}
          title={`${count(b - a)} bytes`}
        >
          {signedSize(b - a)}
        </span>
      </dd>
    </div>
  );
}

/** The line above one of two pictures: a click shows its snapshot in the rest of the page. */
export function Which({ own }: { own: Ground }) {
  const ground = useGround();
  const pair = useCompared();
  const { snapshot } = own.place;
  return (
    <p class="which">
      <button
        type="button"
        class="plain"
        aria-pressed={snapshot === ground.place.snapshot}
        title="Show it in the header, the legend and the tabs (b)"
        onClick={() => show(ground, pair, snapshot)}
      >
        <b>{LETTERS[snapshot]}</b> {own.snapshot.name}
      </button>
    </p>
  );
}
