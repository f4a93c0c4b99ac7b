// Bytes per line of a file, against a count of every allocation.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { opened } from '../build.js';
import { random } from '../random.js';
import * as slow from '../slow.js';
import { world } from '../world.js';

test('an allocation counts once for each of its lines', () => {
  const next = random(3);
  let lines = 0;
  for (let seed = 0; seed < 100; seed++) {
    const of = world(seed, 1 + next(150));
    const place = { snapshot: 0, device: 0 };
    const moment = next(of.events + 1);
    for (const file of new Set(of.frames.map(([, one]) => one))) {
      const wanted = new Map<number, { group: number; bytes: number; count: number }>();
      for (const id of slow.live(of, 'requested', moment)) {
        const life = of.lives[id]!;
        const stack = of.stacks[life.stack]?.frames ?? [];
        const own = stack.map((one) => of.frames[one]!).filter((one) => one[1] === file);
        for (const line of new Set(own.map((one) => one[2]))) {
          const sum = wanted.get(line) ?? { group: line, bytes: 0, count: 0 };
          sum.bytes += life.requested;
          sum.count++;
          wanted.set(line, sum);
        }
      }
      const query = { place, measure: 'requested', moment, filter: null } as const;
      const found = opened(of).lines(query, file);
      assert.deepEqual(
        found,
        [...wanted.values()].sort((a, b) => a.group - b.group),
      );
      lines += found.length;
    }
  }
  assert.ok(lines > 100);
});
