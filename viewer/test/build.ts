// Builds pages and their columns from plain rows, so that tests need no pages written by Python.

import type { Coded } from '../src/core/columns.js';
import { PageEngine } from '../src/core/engine.js';
import {
  MEASURES,
  type Measure,
  type Page,
  type PageData,
  type PageDevice,
} from '../src/core/page.js';
import * as slow from './slow.js';
import type { World } from './world.js';

/** Columns, one after the other, as export/page/coding.py writes them. */
export class Columns {
  private readonly bytes: number[] = [3, 1, 4]; // no column begins at 0

  add(numbers: readonly (number | bigint)[], differences = false): Coded {
    const whole = numbers.map(BigInt);
    const kept = differences ? whole.map((one, i) => one - (i ? whole[i - 1]! : 0n)) : whole;
    const folded = kept.map((one) => (one < 0n ? -2n * one - 1n : 2n * one));
    const highest = folded.reduce((most, one) => (one > most ? one : most), 0n);
    const width = highest ? Math.ceil(highest.toString(2).length / 8) : 0;
    const at = this.bytes.length;
    for (let plane = 0; plane < width; plane++) {
      for (const one of folded) this.bytes.push(Number((one >> BigInt(8 * plane)) & 255n));
    }
    return { rows: numbers.length, width, differences, at };
  }

  /** Adds recurring numbers, each as the distance to the previous equal number. */
  recurring(numbers: readonly number[]): Coded {
    const back = numbers.map((one, i) => {
      const before = numbers.lastIndexOf(one, i - 1);
      return i && before >= 0 ? i - before : 0;
    });
    const fresh = this.add(
      numbers.filter((_, i) => !back[i]),
      true,
    );
    return { ...this.add(back), fresh };
  }

  get data(): Uint8Array {
    return Uint8Array.from(this.bytes);
  }
}

export const BASE = 0x7f00_0000_0000;

function device(of: World, columns: Columns): PageDevice {
  const { lives, pieces, unit } = of;
  const plain = (numbers: readonly number[]): Coded => columns.add(numbers);
  return {
    device: 0,
    events: of.events,
    first_event: of.firstEvent,
    lives: {
      begin: columns.add(
        lives.map((one) => one.begin),
        true,
      ),
      life: plain(lives.map((one) => one.end - one.begin)),
      lag: plain(lives.map((one) => one.end - one.asked)),
      requested: plain(lives.map((one) => one.requested)),
      slack: plain(lives.map((one) => one.block - one.requested)),
      stack: plain(lives.map((one) => one.stack)),
      pool: plain(lives.map((one) => one.pool)),
      stream: plain(lives.map((one) => one.stream)),
      address: columns.recurring(
        lives.map((one) => (one.address === null ? 0 : one.address / unit + 1)),
      ),
    },
    streams: of.streams,
    pools: of.pools,
    reserved_start: of.reservedStart,
    reserved_event: columns.add(
      of.reserved.map(([event]) => event),
      true,
    ),
    reserved_bytes: columns.add(
      of.reserved.map(([, bytes]) => bytes),
      true,
    ),
    time: of.times?.length ? columns.add(of.times, true) : null,
    first_us: of.times?.length ? 1_700_000_000_000_000 : null,
    last_us: of.times?.at(-1) ?? null,
    spans: [],
    marks: [],
    groups: of.groups.map(({ way, ofStacks, ofLives, lines }) => ({
      way,
      title: way,
      pinned_title: `blocked by ${way}`,
      detail: way !== 'stack',
      lines: (lines ?? []).map((line) => [line]),
      of_stacks: ofStacks ? plain(ofStacks) : null,
      of_lives: ofLives ? plain(ofLives) : null,
    })),
    address_base: String(BASE),
    address_unit: unit,
    small_limit: 1 << 20,
    segments: pieces && {
      begin: columns.add(
        pieces.map((one) => one.begin),
        true,
      ),
      life: plain(pieces.map((one) => one.end - one.begin)),
      address: columns.add(
        pieces.map((one) => one.address / unit),
        true,
      ),
      size: plain(pieces.map((one) => one.size)),
      segment: plain(pieces.map((one) => one.segment)),
      pool: plain(pieces.map((one) => one.pool)),
      stream: plain(pieces.map((one) => one.stream)),
      kind: plain(pieces.map((one) => (one.expandable ? 1 : 0) + (one.small ? 2 : 0))),
    },
    trust: of_measures(() => ({ kind: 'note', text: 'Exact.', warning: false })),
    peaks: of_measures((measure) => {
      const all = Array.from({ length: of.events + 1 }, (_, m) => slow.usage(of, measure, m));
      const bytes = Math.max(...all);
      return { bytes, moment: all.indexOf(bytes) };
    }),
    ooms: [],
    card: null,
    outside: null,
  };
}

function of_measures<T>(make: (measure: Measure) => T): Record<Measure, T> {
  return Object.fromEntries(MEASURES.map((one) => [one, make(one)])) as Record<Measure, T>;
}

function snapshot(of: World, columns: Columns): PageData {
  return {
    name: 'a.pkl',
    file: 'a.pkl',
    options: [],
    report: null,
    notes: [],
    texts: of.texts,
    folder: '',
    files: [],
    code: [],
    frame_function: columns.add(of.frames.map(([name]) => name)),
    frame_file: columns.add(of.frames.map(([, file]) => file)),
    frame_line: columns.add(of.frames.map(([, , line]) => line)),
    frame_source: columns.add(of.frames.map(([, , , source]) => source ?? 0)),
    frame_allocator: columns.add(of.frames.map(() => 0)),
    stack_frames: columns.add(of.stacks.map(({ frames }) => frames.length)),
    frames: columns.add(
      of.stacks.flatMap(({ frames }) => frames),
      true,
    ),
    stack_code: columns.add(of.stacks.flatMap(({ code }) => code)),
    devices: [device(of, columns)],
    bytes: columns.data.length,
  };
}

/** A page with one snapshot per world, each with one device, and the snapshots' columns. */
export function built(...worlds: readonly World[]): { page: Page; data: Uint8Array[] } {
  const columns = worlds.map(() => new Columns());
  const snapshots = worlds.map((one, i) => snapshot(one, columns[i]!));
  return {
    page: {
      schema: 'memreplay.page/1',
      version: '1',
      title: 'a.pkl',
      kind: worlds.length > 1 ? 'compare' : 'one',
      snapshots,
      diff: null,
    },
    data: columns.map((one) => one.data),
  };
}

/** An engine with these snapshots open. */
export function opened(...worlds: readonly World[]): PageEngine {
  const { page, data } = built(...worlds);
  const engine = new PageEngine(page);
  for (const [i, one] of data.entries()) engine.load(i, one);
  return engine;
}
