// Pages that pages.py makes: what the engine says of them is in them, too.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Device, inflated, MEASURES, type Page } from '../src/core/page.js';

const FOLDER = process.env['MEMREPLAY_PAGES'] ?? '';

test('pages have the peaks that the engine has', {
  skip: FOLDER ? false : 'no pages',
}, async () => {
  for (const name of readdirSync(FOLDER)) {
    const { page, columns } = JSON.parse(readFileSync(`${FOLDER}/${name}`, 'utf8')) as {
      page: Page;
      columns: string[];
    };
    const { bytes, devices } = page.snapshots[0]!;
    const data = await inflated(columns[0]!, bytes);
    for (const said of devices) {
      const device = new Device(said, data);
      for (const measure of MEASURES) {
        const usage = device.usage(measure);
        assert.equal(usage.length, said.events + 1);
        assert.equal(
          usage.reduce((most, one) => Math.max(most, one), 0),
          said.peaks[measure],
          `${name}, device ${said.device}: ${measure}`,
        );
      }
    }
  }
});
