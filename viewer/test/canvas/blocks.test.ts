// Block maps: compares rows, sums and pieces of small segments with a count of each byte.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MapBlock, MapSegment } from '../../src/protocol.js';
import {
  type BlockLayout,
  blocksLaid,
  blocksOf,
  folded,
  groupsOf,
  HEADING,
  pieceAt,
  rowAt,
  rowBytesOf,
} from '../../src/ui/canvas/blocks/layout.js';
import { movedSpot, shownOrder, spotOf } from '../../src/ui/canvas/blocks/moves.js';
import { blockTip, groupName, groupSums, holeTip, said } from '../../src/ui/canvas/blocks/words.js';
import { random } from './random.js';

let ids = 0;

/** A segment with blocks [offset, size]; the bytes between them are free. */
function segment(
  size: number,
  blocks: readonly (readonly [number, number])[],
  said: Partial<MapSegment> = {},
): MapSegment {
  const active = blocks.reduce((sum, [, one]) => sum + one, 0);
  let largestFree = 0;
  let at = 0;
  for (const [offset, one] of [...blocks, [size, 0] as const]) {
    largestFree = Math.max(largestFree, offset - at);
    at = offset + one;
  }
  return {
    address: '0x7f0000000000',
    size,
    kind: 0,
    pool: '0:0',
    stream: '0',
    active,
    largestFree,
    blocks: blocks.map(
      ([offset, one]): MapBlock => ({
        id: ids++,
        offset,
        size: one,
        requested: one - 1,
        awaiting: false,
      }),
    ),
    ...said,
  };
}

const rowsOf = ({ rows }: BlockLayout) =>
  Array.from(rows.group, (group, i) => [group, rows.segment[i], rows.offset[i], rows.bytes[i]]);

test('segments are grouped by pool and stream, with sums', () => {
  const segments = [
    segment(10, [[0, 4]]),
    segment(30, [[10, 5]], { stream: '7' }),
    segment(20, [], { pool: '0:0' }),
    segment(5, [[0, 5]], { pool: null, stream: null }),
  ];
  const groups = groupsOf(segments);
  assert.deepEqual(
    groups.map(({ segments: own, ...rest }) => [own, groupName(rest.pool, rest.stream)]),
    [
      [[2, 0], 'default pool, stream 0'],
      [[1], 'default pool, stream 7'],
      [[3], 'pool unknown'],
    ],
  );
  const { reserved, active, free, largestFree } = groups[0]!;
  assert.deepEqual([reserved, active, free, largestFree], [30, 4, 26, 20]);
  assert.equal(
    groupSums(groups[0]!),
    '30 B reserved, 4 B active, 26 B free, the largest hole 20 B',
  );
  assert.equal(groupSums(groups[2]!), '5 B reserved, 5 B active, 0 B free');
});

test('segments are sorted by size', () => {
  const segments = [segment(10, []), segment(30, [[0, 25]]), segment(10, []), segment(20, [])];
  assert.deepEqual(groupsOf(segments)[0]!.segments, [1, 3, 0, 2]);
});

test('a segment too large for a row continues in the next one', () => {
  const segments = [segment(25, []), segment(10, []), segment(3, [], { stream: '1' })];
  const layout = blocksLaid(segments, 10);
  assert.deepEqual(rowsOf(layout), [
    [0, -1, 0, 0],
    [0, 0, 0, 10],
    [0, 0, 10, 10],
    [0, 0, 20, 5],
    [0, 1, 0, 10],
    [1, -1, 0, 0],
    [1, 2, 0, 3],
  ]);
  assert.deepEqual([...layout.firstRow], [1, 4, 6]);
  const same = blocksLaid(segments, 0, 15);
  assert.deepEqual(
    rowsOf(same).map(([, one, , bytes]) => [one, bytes]),
    [
      [-1, 0],
      [0, 25],
      [1, 10],
      [-1, 0],
      [2, 3],
    ],
  );
});

test('a height is in the row that is drawn there', () => {
  const layout = blocksLaid([segment(25, []), segment(10, [])], 10);
  const { top } = layout.rows;
  for (let row = 0; row < layout.rows.group.length; row++) {
    assert.equal(rowAt(layout, top[row]!), row);
    assert.equal(rowAt(layout, top[row + 1]! - 0.5), row);
  }
  assert.equal(top[1], HEADING);
  assert.equal(rowAt(layout, -1), -1);
  assert.equal(rowAt(layout, top.at(-1)!), -1);
  assert.equal(rowAt(blocksLaid([], 10), 0), -1);
});

test('rows are as long as most segments need', () => {
  const MIB = 2 ** 20;
  const of = (...sizes: number[]) => rowBytesOf(sizes.map((size) => segment(size * MIB, [])));
  assert.equal(of(), 2 * MIB);
  assert.equal(of(2, 2, 20), 20 * MIB);
  assert.equal(of(20, 20, 42), 42 * MIB);
  assert.equal(of(...Array<number>(50).fill(2), 20), 20 * MIB);
  // A segment of 10 GiB takes 20 rows, so that the others are still visible.
  assert.equal(of(...Array<number>(50).fill(20), 10 * 1024), 512 * MIB);
});

test('each byte is in the piece that holds it', () => {
  for (let seed = 0; seed < 30; seed++) {
    const next = random(seed);
    const blocks: [number, number][] = [];
    const size = 60;
    for (let at = next(4); at < size; at += next(3) ? 0 : next(6)) {
      const one = Math.min(1 + next(8), size - at);
      if (next(3)) blocks.push([at, one]);
      at += one;
    }
    const made = segment(size, blocks);
    // A file may list blocks in any order.
    const mixed = { ...made, blocks: [...made.blocks].reverse() };
    assert.deepEqual(blocksOf(mixed), made.blocks);
    let free = 0;
    for (let byte = 0; byte < size; byte++) {
      const piece = pieceAt(mixed, byte)!;
      const wanted = blocks.findIndex(([at, one]) => at <= byte && byte < at + one);
      assert.equal(piece.block, wanted);
      if (wanted >= 0) assert.deepEqual([piece.offset, piece.size], blocks[wanted]);
      else {
        free++;
        const ends = blocks.map(([at, one]) => at + one).filter((end) => end <= byte);
        const starts = blocks.map(([at]) => at).filter((at) => at > byte);
        assert.equal(piece.offset, Math.max(0, ...ends));
        assert.equal(piece.offset + piece.size, Math.min(size, ...starts));
      }
    }
    assert.equal(free, size - made.active);
  }
  assert.equal(pieceAt(segment(5, []), 5), null);
  assert.equal(pieceAt(segment(5, []), -1), null);
});

test('keys lead from piece to piece and from segment to segment', () => {
  const segments = [segment(10, [[2, 3]]), segment(25, [[0, 25]]), segment(6, [], { stream: '1' })];
  const layout = blocksLaid(segments, 10);
  const order = shownOrder(layout);
  assert.deepEqual(order, [1, 0, 2]);
  const at = (one: number, offset: number) => ({ segment: one, offset });
  assert.deepEqual(movedSpot(layout, order, at(0, 0), 'next'), at(0, 2));
  assert.deepEqual(movedSpot(layout, order, at(0, 2), 'next'), at(0, 5));
  assert.deepEqual(movedSpot(layout, order, at(0, 5), 'next'), at(0, 5));
  assert.deepEqual(movedSpot(layout, order, at(0, 5), 'previous'), at(0, 4));
  assert.deepEqual(movedSpot(layout, order, at(1, 3), 'down'), at(1, 13));
  assert.deepEqual(movedSpot(layout, order, at(1, 13), 'down'), at(1, 23));
  assert.deepEqual(movedSpot(layout, order, at(1, 23), 'down'), at(0, 3));
  assert.deepEqual(movedSpot(layout, order, at(0, 3), 'up'), at(1, 23));
  assert.deepEqual(movedSpot(layout, order, at(0, 9), 'up'), at(1, 24));
  assert.deepEqual(movedSpot(layout, order, at(0, 9), 'down'), at(2, 5));
  assert.deepEqual(movedSpot(layout, order, at(2, 5), 'down'), at(2, 5));
  const whole = blocksLaid([segment(20, []), segment(10, [])], 10);
  assert.deepEqual(movedSpot(whole, [0, 1], at(1, 3), 'up'), at(0, 13));
  assert.deepEqual(spotOf(layout, segments[0]!.blocks[0]!.id), at(0, 2));
  assert.equal(spotOf(layout, -5), null);
});

test('descriptions of blocks and holes', () => {
  const one = segment(4096, [[1024, 2048]]);
  const block = { ...one.blocks[0]!, id: 7, awaiting: true };
  const of = { ...one, blocks: [block] };
  assert.deepEqual(blockTip(of, block, null, 'red'), {
    title: 'allocation 7',
    rows: [
      ['block', '2.0 KiB (2,048 B)'],
      ['requested', '2.0 KiB (2,047 B)'],
      ['address', '0x7f0000000400'],
      ['state', 'its free is pending'],
      ['segment', '4.0 KiB at 0x7f0000000000'],
      ['free', '2.0 KiB (50.0%), the largest hole 1.0 KiB'],
    ],
    colour: 'red',
  });
  assert.equal(holeTip(of, pieceAt(of, 0)!).title, '1.0 KiB free');
  const place = 'default pool, stream 0, in a segment of 4.0 KiB';
  assert.equal(
    said(of, pieceAt(of, 1024)!, 'softmax'),
    `softmax, block of 2.0 KiB at 0x7f0000000400, ${place}, free pending`,
  );
  assert.equal(said(of, pieceAt(of, 3072)!, null), `hole of 1.0 KiB at 0x7f0000000c00, ${place}`);
});

test('folded rows are all in columns that fit', () => {
  for (const [n, width, height] of [
    [0, 1000, 300],
    [3, 1000, 300],
    [60, 700, 200],
    [400, 700, 200],
    [600, 500, 150],
  ] as const) {
    const segments = Array.from({ length: n }, (_, i) =>
      segment(1 + (i % 9), [], { stream: String(i % 3) }),
    );
    const { starts, rows, rowBytes } = folded(segments, width, height);
    assert.equal(rowBytes, 0); // each row has its own scale
    assert.deepEqual([starts[0], starts.at(-1)], [0, rows.top.at(-1)]);
    assert.ok(starts.length - 1 <= Math.max(1, Math.floor(width / 190)));
    for (let column = 0; column + 1 < starts.length; column++) {
      assert.ok(starts[column + 1]! - starts[column]! <= height + 1e-6);
      assert.ok(rows.top.includes(starts[column]!)); // no row is cut in two
    }
    assert.equal(new Set(rows.segment.filter((one) => one >= 0)).size, n);
  }
});
