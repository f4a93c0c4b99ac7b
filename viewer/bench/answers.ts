// Measures how long a page takes to open, how much memory it then holds, and how long each answer takes.
//
//     npm run bench && node --expose-gc build/bench/answers.mjs PAGE
//
// PAGE is as viewer/pages.py writes it.

import { readFileSync } from 'node:fs';
import { PageEngine } from '../src/core/engine.js';
import { inflated, type LifeMeasure, MEASURES, type Page } from '../src/core/page.js';
import type { PictureQuery, Place } from '../src/protocol.js';

const ROUNDS = 5;
const WIDTH = 1280;
const HEIGHT = 500;

function cpu(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

function said(what: string, milliseconds: number): void {
  console.log(`${what.padEnd(44)}${milliseconds.toFixed(1).padStart(9)} ms`);
}

/** The first time, and the lowest of a few more. */
function timed(what: string, ask: (round: number) => unknown): void {
  const times: number[] = [];
  for (let round = 0; round <= ROUNDS; round++) {
    const before = cpu();
    ask(round);
    times.push(cpu() - before);
  }
  said(`${what}, first`, times[0]!);
  said(what, Math.min(...times.slice(1)));
}

function memory(): number {
  globalThis.gc?.();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return (heapUsed + arrayBuffers) / 1e6;
}

const file = readFileSync(process.argv[2]!, 'utf8');
const { page, columns } = JSON.parse(file) as { page: Page; columns: string[] };
const place: Place = { snapshot: 0, device: 0 };
const device = page.snapshots[0]!.devices[0]!;
console.log(`${device.lives.begin.rows} allocations, ${device.events} events`);
const measure: LifeMeasure = 'active';
const before = memory();
let now = cpu();
const data = await inflated(columns[0]!, page.snapshots[0]!.bytes);
said('base64 and inflate', cpu() - now);
now = cpu();
const engine = new PageEngine(page);
engine.load(0, data);
const span = { from: 0, to: device.events + 1 };
engine.curve({ place, measure, axis: 'event', span, columns: WIDTH });
said('decode, a timeline and its curve', cpu() - now);
const colour = {
  way: 'stack',
  colours: [],
  others: [0x4477aa, 0xee6677],
  background: 0xffffff,
} as const;
const query: PictureQuery = {
  ...{ place, measure, axis: 'event', span, low: 0, high: device.peaks[measure].bytes * 1.05 },
  ...{ width: WIDTH, height: HEIGHT, colour, highlight: null },
};
now = cpu();
engine.picture(query);
said('the first picture', cpu() - now);
console.log(`memory for one measure: ${(memory() - before).toFixed(0)} MB`);
now = cpu();
for (const one of MEASURES)
  engine.curve({ place, measure: one, axis: 'event', span, columns: WIDTH });
said('curves of all measures', cpu() - now);
console.log(`memory for all of them: ${(memory() - before).toFixed(0)} MB`);

timed('picture of all', () => engine.picture(query));
for (const part of [0.3, 0.1, 0.01, 0.001]) {
  timed(`picture of ${100 * part} %`, (round) => {
    const from = (device.events * (1 - part) * round) / ROUNDS;
    engine.picture({ ...query, span: { from, to: from + part * device.events } });
  });
}
if (device.time) {
  const to = engine.xOf(place, 'time', device.events);
  timed('picture by time', () => engine.picture({ ...query, axis: 'time', span: { from: 0, to } }));
}
timed('picture, some highlighted', () =>
  engine.picture({ ...query, highlight: { include: 'forward' } }),
);
const [peak] = engine.peaks(place, measure, 0, device.events + 1, 1);
const at = { place, measure, moment: peak!.moment, way: 'stack', filter: null } as const;
console.log(`${engine.holders(at).allCount} live at the peak`);
timed('peaks', () => engine.peaks(place, measure, 0, device.events + 1, 100));
for (const { way } of device.groups)
  timed(`holders by ${way}`, () => engine.holders({ ...at, way }));
timed('between', () => engine.between({ ...at, moment: 0 }, peak!.moment));
const tree = { ...at, root: 'outermost', frames: 'code', least: 0 } as const;
timed('tree of code', () => engine.tree(tree));
timed('tree of all frames, inverted', () =>
  engine.tree({ ...tree, root: 'innermost', frames: 'all' }),
);
timed('tree of differences', () => engine.treeOfDifferences({ ...tree, moment: 0 }, tree));
const rows = { ...at, sort: 'bytes', descending: true, offset: 0, limit: 600 } as const;
timed('listing by bytes', () => engine.live(rows));
timed('listing by address', () => engine.live({ ...rows, sort: 'address' }));
if (device.segments) {
  // Of a moment before, as the last one is known.
  timed('map', (round) => engine.map(place, peak!.moment - round));
  timed('who blocks what is free', (round) =>
    engine.blockers(place, peak!.moment - round, 'stack'),
  );
}
timed('a new search', (round) =>
  engine.holders({ ...at, filter: { include: `forward.{${round}}` } }),
);
timed('bytes at a moment', () => engine.bytesAt(place, measure, peak!.moment));
timed('an allocation', () => engine.allocation(place, 1));
