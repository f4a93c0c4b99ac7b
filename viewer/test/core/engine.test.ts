import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PageEngine } from '../../src/core/engine.js';
import { MEASURES } from '../../src/core/page.js';
import type { PictureQuery } from '../../src/protocol.js';
import { built, opened } from '../build.js';
import { random } from '../random.js';
import * as slow from '../slow.js';
import { NOTHING, type World, world } from '../world.js';

const place = { snapshot: 0, device: 0 };
const AXES = ['event', 'time'] as const;

test('curves are exact', () => {
  const next = random(20);
  for (let seed = 0; seed < 80; seed++) {
    const of = world(seed, 1 + next(120));
    const engine = opened(of);
    for (const axis of AXES) {
      if (axis === 'time' && !of.times) continue;
      const end = axis === 'time' ? of.times![of.events - 1]! + 1 : of.events + 1;
      const from = next(end + 6) - 3;
      const span = { from, to: from + 1 + next(end) };
      const columns = 1 + next(30);
      for (const measure of MEASURES) {
        const { low, high } = engine.curve({ place, measure, axis, span, columns });
        for (let c = 0; c < columns; c++) {
          const bytes = slow
            .covered(of, axis, span, columns, c)
            .map((m) => slow.usage(of, measure, m));
          const wanted = bytes.length
            ? [Math.min(...bytes), Math.max(...bytes)]
            : [Number.NaN, Number.NaN];
          assert.deepEqual([low[c], high[c]], wanted);
        }
      }
    }
  }
});

test('pictures by events and by time', () => {
  const next = random(21);
  for (let seed = 0; seed < 100; seed++) {
    const of = world(seed, 1 + next(200));
    const engine = opened(of);
    for (const axis of AXES) {
      if (axis === 'time' && !of.times) continue;
      const measure = next(2) ? 'active' : 'held';
      const end = axis === 'time' ? of.times![of.events - 1]! + 1 : of.events + 1;
      const from = next(end + 6) - 3 + next(4) / 4;
      const low = next(2) * next(3000);
      const query: PictureQuery = {
        place,
        measure,
        axis,
        span: { from, to: from + (next(5) ? 1 + next(end) : 0.6) },
        low,
        high: low + 1 + next(20_000),
        width: 1 + next(20),
        height: 1 + next(20),
        colour: {
          way: of.groups[next(of.groups.length)]!.way,
          colours: [[0, 0xff0000]],
          others: [0x112233, 0x99aabb],
          background: 0xffffff,
        },
        highlight: next(2) ? null : { include: 'main' },
      };
      const { width, height } = query;
      const moments = Array.from({ length: width }, (_, c) =>
        slow.highest(of, measure, slow.covered(of, axis, query.span, width, c)),
      );
      const ids = Array.from({ length: width * height }, (_, i) => {
        const row = height - 1 - Math.floor(i / width);
        return slow.pixel(of, measure, moments[i % width]!, query, row);
      });
      const colours = slow.colours(
        ids,
        width,
        query.colour,
        (id) => slow.group(of, query.colour.way, measure, id),
        (id) => !query.highlight || slow.met(of, /main/, id),
      );
      const found = engine.picture(query);
      assert.deepEqual([...found.moments], moments);
      assert.deepEqual([...found.ids], ids);
      assert.deepEqual(
        [...found.pixels],
        colours.flatMap((rgb) => [...rgb, 255]),
      );
    }
  }
});

/** The same recording without what was carried over. */
function withoutCarried(of: World): World {
  const lives = of.lives.map((one) => (one.begin < 0 ? { ...one, requested: 0, block: 0 } : one));
  return { ...of, lives };
}

test('without what was carried over, the stack begins with the first allocation', () => {
  const next = random(23);
  for (let seed = 0; seed < 40; seed++) {
    const of = world(seed, 1 + next(120));
    const rest = withoutCarried(of);
    const [engine, wanted] = [opened(of), opened(rest)];
    const measure = next(2) ? 'active' : 'held';
    const span = { from: 0, to: of.events + 1 };
    const curve = { place, measure, axis: 'event', span, columns: 9 } as const;
    assert.deepEqual(engine.curve({ ...curve, recorded: true }), wanted.curve(curve));
    const query: PictureQuery = {
      ...{ place, measure, axis: 'event', span, low: 0, high: 9_000, width: 9, height: 11 },
      colour: { way: of.groups[0]!.way, colours: [], others: [1, 2], background: 3 },
      highlight: null,
    };
    assert.deepEqual(engine.picture({ ...query, recorded: true }), wanted.picture(query));
    for (let moment = 0; moment <= of.events; moment += 7) {
      const at = { place, measure, moment, way: of.groups[0]!.way } as const;
      const live = slow.live(of, measure, moment).filter((id) => of.lives[id]!.begin >= 0);
      const found = engine.holders({ ...at, filter: { recorded: true } });
      assert.equal(found.count, live.length);
      assert.equal(found.bytes, slow.usage(rest, measure, moment));
    }
  }
});

test('the bytes of the stack that an allocation fills', () => {
  const of = world(5, 90);
  const engine = opened(of);
  for (const recorded of [false, true]) {
    for (let moment = 0; moment <= of.events; moment += 3) {
      const live = slow.live(of, 'active', moment);
      let low = 0;
      of.lives.forEach((one, id) => {
        const asked = { place, measure: 'active', moment, recorded } as const;
        const band = engine.bandOf({ ...asked, id, filter: null });
        const bytes = live.includes(id) && !(recorded && one.begin < 0) ? one.block : 0;
        assert.deepEqual(band, bytes ? { low, high: low + bytes } : null);
        low += bytes;
      });
      // Of several allocations, it's everything from the lowest to the highest.
      const met = of.lives.map((one, id) => {
        const bytes = live.includes(id) && !(recorded && one.begin < 0) ? one.block : 0;
        return { bytes, of: slow.met(of, /main/, id) };
      });
      const first = met.findIndex(({ of, bytes }) => of && bytes);
      const last = met.reduce((last, { of, bytes }, i) => (of && bytes ? i : last), -1);
      const below = (end: number) => met.slice(0, end).reduce((sum, { bytes }) => sum + bytes, 0);
      assert.deepEqual(
        engine.bandOf({
          ...{ place, measure: 'active', moment, recorded, id: null },
          filter: { include: 'main' },
        }),
        first < 0 ? null : { low: below(first), high: below(last + 1) },
      );
    }
  }
});

test('peaks within moments', () => {
  const of = world(3, 100);
  const engine = opened(of);
  const all = Array.from({ length: 101 }, (_, m) => slow.usage(of, 'held', m));
  const part = all.slice(20, 51);
  const [peak] = engine.peaks(place, 'held', 20, 51, 3);
  assert.deepEqual(peak, {
    moment: 20 + part.indexOf(Math.max(...part)),
    bytes: Math.max(...part),
  });
  assert.equal(engine.peaks(place, 'held', -5, 900, 1)[0]!.bytes, Math.max(...all));
  assert.deepEqual(engine.peaks(place, 'held', 30, 30, 1), []);
});

test('positions between moments get the earlier one, and positions outside the nearest one', () => {
  const of = world(4, 60);
  const engine = opened(of);
  for (const [moment, means] of [
    [17.9, 17],
    [-2, 0],
    [99, 60],
  ] as const) {
    assert.equal(engine.bytesAt(place, 'held', moment), engine.bytesAt(place, 'held', means));
    assert.equal(engine.bytesAt(place, 'held', moment), slow.usage(of, 'held', means));
  }
});

test('bytes at a moment, moments on the axes', () => {
  const of = { ...world(4, 60), times: Array.from({ length: 60 }, (_, e) => 3 * e) };
  const engine = opened(of);
  for (let m = 0; m <= 60; m++) {
    for (const measure of MEASURES) {
      assert.equal(engine.bytesAt(place, measure, m), slow.usage(of, measure, m));
    }
    assert.equal(engine.xOf(place, 'time', m), slow.lasts(of, m)[0]);
    assert.equal(engine.momentAt(place, 'time', slow.lasts(of, m)[0]), m || 1);
  }
  const moments = Float64Array.of(0, 1, 60);
  assert.deepEqual(engine.xsOf(place, 'time', moments), Float64Array.of(0, 0, 177));
  assert.deepEqual(engine.xsOf(place, 'event', moments), moments);
  assert.notEqual(engine.xsOf(place, 'event', moments), moments);
});

test("answers are new arrays, because they're transferred", () => {
  const engine = opened(world(4, 60));
  const ask = [
    () => engine.frames(0).lines,
    () => engine.stack(0, 1).frames,
    () => engine.groups(place, 'held', 'category'),
  ];
  for (const one of ask) {
    const before = [...one()];
    one().fill(77);
    assert.deepEqual([...one()], before);
  }
});

test('a device without events', () => {
  const engine = opened(NOTHING);
  const at = { place, measure: 'active', moment: 0, way: 'stack', filter: null } as const;
  assert.deepEqual(engine.holders(at), {
    bytes: 0,
    count: 0,
    allBytes: 0,
    allCount: 0,
    groups: [],
  });
  assert.deepEqual(engine.between(at, 0), []);
  const tree = engine.tree({ ...at, root: 'outermost', frames: 'all', least: 1 });
  assert.deepEqual([[...tree.frame], [...tree.bytes]], [[-1], [0]]);
  const span = { from: 0, to: 2 };
  const { high } = engine.curve({ place, measure: 'active', axis: 'event', span, columns: 2 });
  assert.deepEqual([...high], [0, Number.NaN]);
  const colour = { way: 'stack', colours: [], others: [1], background: 0 } as const;
  const size = { low: 0, high: 1, width: 2, height: 2 };
  const picture = engine.picture({
    ...{ place, measure: 'active', axis: 'event', span, colour, highlight: null },
    ...size,
  });
  assert.deepEqual(
    [[...picture.moments], [...picture.ids]],
    [
      [0, -1],
      [-1, -1, -1, -1],
    ],
  );
  assert.throws(() => engine.xOf(place, 'time', 0), /no times/);
});

test("snapshots that aren't open", () => {
  const { page, data } = built(world(1, 9));
  const engine = new PageEngine(page);
  assert.equal(engine.loaded(0), false);
  assert.throws(() => engine.frames(0), /not open/);
  engine.load(0, data[0]!);
  assert.equal(engine.loaded(0), true);
  assert.throws(() => engine.xOf({ snapshot: 0, device: 1 }, 'event', 0), /no device 1/);
  assert.throws(() => engine.load(1, data[0]!), /no snapshot 1/);
});
