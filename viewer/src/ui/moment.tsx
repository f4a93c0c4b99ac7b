// What there was at a moment: its event, time and step, and the bytes by each measure.

import { MEASURES } from '../core/page.js';
import { useAnswer } from './answers.js';
import type { Ground } from './ground.js';
import { momentName } from './moving.js';
import { partsOf, sampleAt, sampledText } from './outside.js';
import { fineDuration, size } from './units.js';

export function MomentLines({ ground, moment }: { ground: Ground; moment: number }) {
  const { engine, place, device } = ground;
  const answer = useAnswer(JSON.stringify([place, moment]), async () => ({
    moment,
    bytes: await Promise.all(MEASURES.map((measure) => engine.bytesAt(place, measure, moment))),
    us: device.last_us === null ? null : await engine.xOf(place, 'time', moment),
  }));
  if (!answer.value) return null;
  const { bytes, us, moment: at } = answer.value;
  const step = device.marks.find(
    ({ kind, moment, end }) => kind === 'step' && moment <= at && at < (end ?? Infinity),
  );
  const rows = [
    ['at', momentName(ground, at)],
    ['time', us === null ? '' : `+${fineDuration(us)}`],
    ['in', step?.text ?? ''],
    ...MEASURES.map((measure, i) => [measure, size(bytes[i]!)]),
  ];
  const { outside } = device;
  if (outside && us !== null) {
    const sample = sampleAt(outside, at);
    rows.push(
      ...partsOf(outside, sample).map(([name, bytes]) => [name, bytes === null ? '' : size(bytes)]),
      ['sampled', sampledText(outside, sample, us)],
    );
  }
  return (
    <dl class="pairs" data-what="moment" data-moment={at}>
      {rows.map(([name, value]) =>
        value ? (
          <>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </>
        ) : null,
      )}
    </dl>
  );
}
