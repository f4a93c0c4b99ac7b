import assert from 'node:assert/strict';
import { test } from 'node:test';
import { opened } from '../build.js';
import { random } from '../random.js';
import * as slow from '../slow.js';
import { bytesOf, world } from '../world.js';

const place = { snapshot: 0, device: 0 };
const LIFE_MEASURES = ['requested', 'held', 'active', 'allocated'] as const;

test('holders of live memory', () => {
  const next = random(13);
  for (let seed = 0; seed < 30; seed++) {
    const of = world(seed, 1 + next(200));
    const engine = opened(of);
    for (const measure of LIFE_MEASURES) {
      for (const { way } of of.groups) {
        const moment = next(of.events + 1);
        const filter = next(2) ? null : { include: 'step' };
        const live = slow.live(of, measure, moment);
        const kept = live.filter((id) => !filter || slow.met(of, /step/, id));
        const bytes = (ids: readonly number[]): number =>
          ids.reduce((sum, id) => sum + bytesOf(of.lives[id]!, measure), 0);
        const groups = [...new Set(kept.map((id) => slow.group(of, way, measure, id)))].map(
          (group) => {
            const own = kept.filter((id) => slow.group(of, way, measure, id) === group);
            const heights = own.reduce((sum, id) => {
              const below = bytes(live.filter((one) => one < id));
              const size = bytesOf(of.lives[id]!, measure);
              return sum + size * (below + size / 2);
            }, 0);
            const all = bytes(own);
            return { group, bytes: all, count: own.length, level: all ? heights / all : 0 };
          },
        );
        assert.deepEqual(engine.holders({ place, measure, moment, way, filter }), {
          bytes: bytes(kept),
          count: kept.length,
          allBytes: bytes(live),
          allCount: live.length,
          groups: groups.sort((a, b) => b.bytes - a.bytes || a.group - b.group),
        });
      }
    }
  }
});

test('allocated and freed bytes', () => {
  const next = random(14);
  for (let seed = 0; seed < 30; seed++) {
    const of = world(seed, 1 + next(200));
    const engine = opened(of);
    for (const measure of LIFE_MEASURES) {
      for (const { way } of of.groups) {
        const [a, b] = [next(of.events + 1), next(of.events + 1)];
        const [first, last] = [Math.min(a, b), Math.max(a, b)];
        const filter = next(2) ? null : { include: 'step' };
        const kept = (ids: readonly number[]): number[] =>
          ids.filter((id) => !filter || slow.met(of, /step/, id));
        const before = kept(slow.live(of, measure, first));
        const after = kept(slow.live(of, measure, last));
        const rows = engine.between({ place, measure, moment: first, way, filter }, last);
        const sums = (ids: readonly number[], group: number): [number, number] => {
          const own = ids.filter((id) => slow.group(of, way, measure, id) === group);
          return [own.reduce((sum, id) => sum + bytesOf(of.lives[id]!, measure), 0), own.length];
        };
        const came = after.filter((id) => !before.includes(id));
        const went = before.filter((id) => !after.includes(id));
        const groups = new Set([...came, ...went].map((id) => slow.group(of, way, measure, id)));
        assert.deepEqual(new Set(rows.map(({ group }) => group)), groups);
        for (const row of rows) {
          const [more, less] = [sums(came, row.group), sums(went, row.group)];
          assert.deepEqual(row, {
            group: row.group,
            bytes: more[0] - less[0],
            count: more[1] - less[1],
            came: more[0],
            cameCount: more[1],
            went: less[0],
            wentCount: less[1],
          });
        }
        const net = rows.map(({ bytes }) => Math.abs(bytes));
        assert.deepEqual(
          net,
          [...net].sort((x, y) => y - x),
        );
        assert.deepEqual(
          engine.between({ place, measure, moment: last, way, filter }, first),
          rows,
        );
      }
    }
  }
});
