// A page's data in tests, as plain rows, and random programs that produce such data.

import type { LifeMeasure, Way } from '../src/core/page.js';
import { type Next, random } from './random.js';

export interface LifeRow {
  readonly begin: number;
  readonly end: number;
  /** The event that requested its free. */
  readonly asked: number;
  readonly requested: number;
  readonly block: number;
  readonly stack: number;
  readonly pool: number;
  readonly stream: number;
  /** Bytes from the base on; null if unknown. */
  readonly address: number | null;
}

export interface PieceRow {
  readonly begin: number;
  readonly end: number;
  readonly address: number;
  readonly size: number;
  readonly segment: number;
  readonly pool: number;
  readonly stream: number;
  readonly expandable: boolean;
  readonly small: boolean;
}

export interface StackRow {
  readonly frames: readonly number[];
  readonly code: readonly number[];
}

export interface GroupRows {
  readonly way: Way;
  readonly ofStacks?: readonly number[];
  readonly ofLives?: readonly number[];
  /** The groups' names, as indices into `texts`. */
  readonly lines?: readonly number[];
}

export interface World {
  readonly events: number;
  readonly firstEvent: number;
  readonly lives: readonly LifeRow[];
  /** Each event's microseconds since the first event; null without times. */
  readonly times: readonly number[] | null;
  readonly reservedStart: number;
  readonly reserved: readonly (readonly [number, number])[];
  readonly texts: readonly string[];
  /** Function and file as indices into `texts`, line, and 1 plus the source line's index. */
  readonly frames: readonly (readonly [number, number, number, number?])[];
  readonly stacks: readonly StackRow[];
  readonly groups: readonly GroupRows[];
  readonly pools: readonly (readonly [number, number] | null)[];
  readonly streams: readonly (string | null)[];
  readonly unit: number;
  readonly pieces: readonly PieceRow[] | null;
}

export const NOTHING: World = {
  events: 0,
  firstEvent: 0,
  lives: [],
  times: null,
  reservedStart: 0,
  reserved: [],
  texts: [],
  frames: [],
  stacks: [],
  groups: [],
  pools: [],
  streams: [],
  unit: 1,
  pieces: null,
};

/** The event until which an allocation counts. */
export function endOf(one: LifeRow, measure: LifeMeasure): number {
  return measure === 'held' || measure === 'allocated' ? one.asked : one.end;
}

export function bytesOf(one: LifeRow, measure: LifeMeasure): number {
  return measure === 'active' || measure === 'allocated' ? one.block : one.requested;
}

const UNIT = 512;

/** A random program of this many events, with allocations in segments. Some frees are lost. */
export function world(seed: number, events: number): World {
  const next = random(seed);
  const texts = [
    'main',
    'step',
    'forward',
    'at::_ops::add::call',
    'a.py',
    'lib/b.py',
    '',
    'op()(x)',
  ];
  const frames = Array.from(
    { length: 1 + next(12) },
    () => [next(4), 4 + next(4), next(3) * 10] as const,
  );
  const stacks = Array.from({ length: 1 + next(10) }, () => {
    const length = next(6);
    return {
      frames: Array.from({ length }, () => next(frames.length)),
      code: Array.from({ length }, () => next(2)),
    };
  });
  const pools = [null, [0, 0], [0, 7]] as const;
  const made = made_(next, events, stacks.length, pools.length);
  const ofLives = made.lives.map(() => next(3));
  return {
    events,
    firstEvent: next(2) * next(1000),
    ...made,
    texts,
    frames,
    stacks,
    groups: [
      { way: 'stack', ofStacks: [...stacks.keys(), stacks.length, stacks.length + 1] },
      { way: 'category', ofLives },
      { way: 'size' },
      ...(next(2) ? [byFrame(next, stacks.length, texts.length)] : []),
    ],
    pools,
    streams: ['0', '94', null],
    unit: UNIT,
  };
}

/** Groups stacks by line at random. Allocations without a stack get separate groups. */
function byFrame(next: Next, stacks: number, texts: number): GroupRows {
  const groups = 1 + next(4);
  return {
    way: 'line',
    ofStacks: [...Array.from({ length: stacks }, () => next(groups)), groups, groups + 1],
    lines: Array.from({ length: groups + 2 }, () => next(texts)),
  };
}

interface Made {
  readonly lives: LifeRow[];
  readonly times: number[] | null;
  readonly reservedStart: number;
  readonly reserved: [number, number][];
  readonly pieces: PieceRow[];
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

function made_(next: Next, events: number, stacks: number, pools: number): Made {
  const lives: Mutable<LifeRow>[] = [];
  const pieces: Mutable<PieceRow>[] = [];
  const reserved: [number, number][] = [];
  const times: number[] = [];
  const open: Mutable<LifeRow>[] = [];
  let now = 0;
  let high = 0;
  const reserve = (event: number): void => {
    const size = UNIT * (1 + next(20));
    // Some pieces touch the previous one, and may belong to the same segment.
    const touches = next(2) === 1 && pieces.length > 0;
    const before = pieces[pieces.length - 1];
    const joins = touches && next(3) > 0;
    pieces.push({
      begin: event,
      end: events,
      address: touches ? high : high + UNIT * (1 + next(5)),
      size,
      segment: joins ? before!.segment : pieces.length,
      pool: next(pools),
      stream: touches ? before!.stream : next(3),
      expandable: joins ? before!.expandable : next(3) > 0,
      small: next(4) === 0,
    });
    high = pieces[pieces.length - 1]!.address + size;
    now += size;
  };
  const allocate = (begin: number): void => {
    const requested = next(8) ? 1 + next(3000) : 0;
    const size = Math.ceil(requested / UNIT) * UNIT;
    const live = pieces.filter((one) => one.end === events);
    const within = live[next(Math.max(live.length, 1))];
    // Blocks may overlap or extend beyond their segment, as they do when events were lost.
    const address = within
      ? within.address + UNIT * next(Math.max(1, (within.size - (next(9) ? size : 0)) / UNIT))
      : null;
    const one = {
      begin,
      end: events,
      asked: events,
      requested,
      block: size,
      stack: begin < 0 ? next(stacks + 1) : next(stacks + 1),
      pool: next(pools),
      stream: next(3),
      address: next(20) ? address : null,
    };
    if (one.stack === stacks && begin < 0) one.stack = stacks + 1;
    lives.push(one);
    if (begin < 0 && !next(4)) one.asked = -1; // requested before the trace
    open.push(one);
  };
  for (let i = next(3); i > 0; i--) reserve(-1);
  const reservedStart = now;
  for (let i = next(4); i > 0; i--) allocate(-1);
  for (let e = 0; e < events; e++) {
    times.push((times[e - 1] ?? 0) + (e && next(3) ? next(50) : 0));
    const kind = next(12);
    const one = open[next(Math.max(open.length, 1))];
    if (kind < 5) {
      // End another allocation, as if its free had been lost.
      if (one && !next(10)) {
        one.end = e;
        one.asked = Math.min(one.asked, e);
        open.splice(open.indexOf(one), 1);
      }
      allocate(e);
    } else if (kind < 7) {
      if (one && one.asked === events) one.asked = e;
    } else if (kind < 10) {
      if (!one) continue;
      one.end = e;
      one.asked = Math.min(one.asked, e);
      open.splice(open.indexOf(one), 1);
    } else if (kind === 10) {
      reserve(e);
      reserved.push([e, now]);
    } else {
      const live = pieces.filter((piece) => piece.end === events);
      const gone = live[next(Math.max(live.length, 1))];
      if (!gone) continue;
      gone.end = e;
      now -= gone.size;
      reserved.push([e, now]);
    }
  }
  return { lives, times: next(5) ? times : null, reservedStart, reserved, pieces };
}
