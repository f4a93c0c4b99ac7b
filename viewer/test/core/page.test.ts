// Compares the engine's answers with the numbers in the pages that pages.py writes.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { PageEngine } from '../../src/core/engine.js';
import { inflated, MEASURES, type Page } from '../../src/core/page.js';
import type { TreeQuery } from '../../src/protocol.js';

const FOLDER = process.env['MEMREPLAY_PAGES'] ?? '';

for (const name of FOLDER ? readdirSync(FOLDER) : []) {
  test(`${name} adds up`, async () => {
    const { page, columns } = JSON.parse(readFileSync(`${FOLDER}/${name}`, 'utf8')) as {
      page: Page;
      columns: string[];
    };
    const engine = new PageEngine(page);
    for (const [snapshot, said] of page.snapshots.entries()) {
      engine.load(snapshot, await inflated(columns[snapshot]!, said.bytes));
      for (const [device, { events, peaks, groups, segments }] of said.devices.entries()) {
        const place = { snapshot, device };
        for (const measure of MEASURES) {
          const [peak] = engine.peaks(place, measure, 0, events + 1, 1);
          assert.deepEqual(peak, peaks[measure], measure);
          const { moment } = peak!;
          assert.equal(engine.bytesAt(place, measure, moment), peaks[measure].bytes);
          if (measure === 'reserved') {
            if (segments) assert.equal(engine.map(place, moment).reserved, peaks.reserved.bytes);
            continue;
          }
          for (const { way } of groups) {
            const query = { place, measure, moment, way, filter: null };
            const held = engine.holders(query);
            assert.equal(held.bytes, peaks[measure].bytes);
            assert.equal(
              held.groups.reduce((sum, one) => sum + one.bytes, 0),
              held.bytes,
            );
          }
          for (const root of ['outermost', 'innermost'] as const) {
            for (const frames of ['all', 'code'] as const) {
              const query: TreeQuery = {
                place,
                measure,
                moment,
                filter: null,
                least: 0,
                root,
                frames,
              };
              assert.equal(engine.tree(query).bytes[0], peaks[measure].bytes);
            }
          }
        }
      }
    }
  });
}
