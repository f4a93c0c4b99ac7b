// Rebuilt events, compared with a slow search through all rows.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EventRow } from '../../src/protocol.js';
import { BASE, opened } from '../build.js';
import { random } from '../random.js';
import { type LifeRow, NOTHING, type PieceRow, type World, world } from '../world.js';

const place = { snapshot: 0, device: 0 };
const ALL = Number.MAX_SAFE_INTEGER;

/** An event's action, bytes and address in bytes from the base, and the addresses it covers. */
function wanted(of: World, event: number): [string, number | null, number | null, number] {
  const begun = of.lives.findIndex((one) => one.begin === event);
  if (begun >= 0) return row('alloc', of.lives[begun]!);
  for (const [when, segment, expandable] of [
    ['begin', 'segment_alloc', 'segment_map'],
    ['end', 'segment_free', 'segment_unmap'],
  ] as const) {
    const one = of.pieces!.find((piece) => piece[when] === event);
    if (one) return [one.expandable ? expandable : segment, one.size, one.address, one.size];
  }
  const asked = of.lives.filter((one) => one.asked === event && one.end > event).at(-1);
  if (asked) return row('free_requested', asked);
  const ended = of.lives.filter((one) => one.end === event).at(-1);
  return ended ? row('free_completed', ended) : ['unknown', null, null, 0];
}

function row(action: string, one: World['lives'][number]): [string, number, number | null, number] {
  return [action, one.requested, one.address, Math.max(one.block, 1)];
}

function said({ action, bytes, address }: EventRow): [string, number | null, number | null] {
  return [action, bytes, address === '' ? null : Number(address) - BASE];
}

test('every event has its action, bytes and address', () => {
  const next = random(7);
  const seen = new Set<string>();
  for (let seed = 0; seed < 80; seed++) {
    const of = world(seed, 1 + next(120));
    const engine = opened(of);
    const { total, rows } = engine.events(place, '', 0, ALL);
    assert.equal(total, of.events);
    rows.forEach((one, event) => {
      assert.deepEqual(said(one), wanted(of, event).slice(0, 3), `${seed} ${event}`);
      assert.equal(one.event, of.firstEvent + event);
      assert.equal(one.moment, event + 1);
      assert.equal(one.us, of.times ? of.times[event] : null);
      seen.add(one.action);
    });
    const [from, limit] = [next(of.events), next(20)];
    assert.deepEqual(engine.events(place, '', from, limit).rows, rows.slice(from, from + limit));
  }
  assert.equal(seen.size, 8);
});

test('the events of an address are those whose memory includes it', () => {
  const next = random(8);
  for (let seed = 0; seed < 60; seed++) {
    const of = world(seed, 1 + next(120));
    const engine = opened(of);
    const at = of.unit * next(60) + next(2);
    const events = Array.from({ length: of.events }, (_, event) => event).filter((event) => {
      const [, , address, bytes] = wanted(of, event);
      return address !== null && address <= at && at < address + bytes;
    });
    const text = `0x${(BigInt(BASE) + BigInt(at)).toString(16)}`;
    const found = engine.events(place, text, 0, ALL);
    assert.deepEqual(
      found.rows.map(({ moment }) => moment - 1),
      events,
    );
    assert.equal(found.total, events.length);
    assert.deepEqual(
      engine.events(place, text.slice(2).toUpperCase(), 1, 2).rows,
      found.rows.slice(1, 3),
    );
  }
});

test('an address that is not hexadecimal is an error', () => {
  const engine = opened(world(1, 20));
  for (const text of ['x', '0x', '12 34', '-1', '0x1.5']) {
    assert.throws(() => engine.events(place, text, 0, 1), /not a hexadecimal address/);
  }
});

test('an event may unmap several pieces, free no bytes, or end what it replaces', () => {
  const life: LifeRow = {
    begin: 0,
    end: 2,
    asked: 2,
    requested: 100,
    block: 512,
    stack: 0,
    pool: 0,
    stream: 0,
    address: 0,
  };
  const piece: PieceRow = {
    begin: -1,
    end: 3,
    address: 0,
    size: 1024,
    segment: 0,
    pool: 0,
    stream: 0,
    expandable: true,
    small: false,
  };
  const of: World = {
    ...NOTHING,
    events: 4,
    lives: [
      life,
      { ...life, begin: 1, end: 4, asked: 4, requested: 0, block: 0, address: 512 },
      { ...life, begin: 2, end: 4, asked: 4, address: 1024 },
    ],
    pieces: [piece, { ...piece, address: 1024, size: 2048 }],
    reserved: [[3, 0]],
    reservedStart: 3072,
    groups: [{ way: 'stack', ofStacks: [0, 1, 2] }],
    stacks: [{ frames: [], code: [] }],
    pools: [[0, 0]],
    streams: ['0'],
    unit: 512,
  };
  const engine = opened(of);
  const { rows } = engine.events(place, '', 0, ALL);
  assert.deepEqual(rows.map(said), [
    ['alloc', 100, 0],
    ['alloc', 0, 512],
    ['alloc', 100, 1024],
    ['segment_unmap', 3072, 0],
  ]);
  assert.deepEqual(
    rows.map(({ pool, stream, id, stack }) => [pool, stream, id, stack]),
    [
      ['0:0', '0', 0, 0],
      ['0:0', '0', 1, 0],
      ['0:0', '0', 2, 0],
      ['0:0', '0', -1, -1],
    ],
  );
  const at = (bytes: number) =>
    engine.events(place, (BASE + bytes).toString(16), 0, ALL).rows.map(({ event }) => event);
  assert.deepEqual([0, 511, 512, 513, 1024].map(at), [[0, 3], [0, 3], [1, 3], [3], [2, 3]]);
});
