// Annotations and steps as lanes under the picture, on the same axis.

import { useMemo } from 'preact/hooks';
import type { Span } from '../protocol.js';
import { useAnswer } from './answers.js';
import { Lanes } from './canvas/lanes.js';
import { type Ground, useGround } from './ground.js';
import { lookAt, middle, momentName, zoomTo } from './moving.js';
import { LEFT } from './sizes.js';
import { count, counted, duration, fineDuration } from './units.js';

export function AnnotationLanes() {
  const ground = useGround();
  const { engine, place, axis, device, span, at, other, change } = ground;
  const half = middle(axis);
  const answer = useAnswer(JSON.stringify([place, axis]), async () => {
    const { spans, marks } = device;
    const moments = Float64Array.from([
      ...spans.map(({ begin }) => begin),
      ...spans.map(({ end }) => end ?? device.events),
      ...marks.map(({ moment }) => moment),
      ...marks.map(({ moment, end }) => end ?? moment),
    ]);
    // On the event axis a moment has a width. Ranges begin and end in its middle, where the cursor is.
    const x = (await engine.xsOf(place, axis, moments)).map((one) => one + half);
    const [n, k] = [spans.length, marks.length];
    const all = marks.map(({ kind, text, end }, i) => ({
      kind,
      text,
      from: x[2 * n + i]!,
      to: end === null ? null : x[2 * n + k + i]!,
    }));
    return {
      spans: spans.map(({ name }, i) => ({ name, from: x[i]!, to: x[n + i]! })),
      steps: all.filter(({ kind }) => kind === 'step'),
      points: all.filter(({ kind }) => kind !== 'step'),
    };
  });
  const cursors = useAnswer(JSON.stringify([place, axis, at, other]), async () => ({
    at: (await engine.xOf(place, axis, at)) + half,
    other: other === null ? null : (await engine.xOf(place, axis, other)) + half,
  }));
  const spans = seenOf(answer.value?.spans, span);
  const steps = seenOf(answer.value?.steps, span);
  const points = seenOf(answer.value?.points, span);
  const marks = useMemo(() => [...steps, ...points], [steps, points]);
  if (!spans.length && !marks.length) return null;
  return (
    <Lanes
      spans={spans}
      marks={marks}
      span={span}
      left={LEFT}
      cursor={cursors.value?.at ?? null}
      other={cursors.value?.other ?? null}
      onPick={async ({ from, to }) => {
        const [one, two] = await Promise.all([
          engine.momentAt(place, axis, from),
          engine.momentAt(place, axis, to),
        ]);
        // A point sets one cursor; a range sets both.
        change({ at: one, other: to > from ? two : null });
      }}
      onZoom={({ from, to }) => zoomTo(ground, { from, to })}
      onReveal={({ from, to }) => {
        const half = (span.to - span.from) / 2;
        lookAt(ground, { from: (from + to) / 2 - half, to: (from + to) / 2 + half });
      }}
      words={({ kind, from, to }) =>
        // These marks are events, and their moments come after them.
        axis === 'event' && (kind === 'oom' || kind === 'snapshot')
          ? [['at', momentName(ground, Math.floor(from))]]
          : wordsOf(ground, from, to)
      }
    />
  );
}

const NONE: readonly never[] = [];

/** All items, or none if none of them is visible, so that they take no room then. */
function seenOf<T extends { readonly from: number; readonly to: number | null }>(
  items: readonly T[] = NONE,
  { from, to }: Span,
): readonly T[] {
  return items.some((one) => one.from < to && (one.to ?? one.from) >= from) ? items : NONE;
}

/** When a range began, and how long it lasted. */
function wordsOf({ axis, device }: Ground, from: number, to: number): [string, string][] {
  if (axis === 'time') {
    const at: [string, string] = ['at', `+${duration(Math.round(from))}`];
    return to > from ? [at, ['lasts', fineDuration(Math.round(to - from))]] : [at];
  }
  // `from` is in the middle of a moment, so this many events come before it.
  const first = device.first_event + Math.floor(from);
  if (to <= from) return [['at', `event ${count(first)}`]];
  return [
    ['events', `${count(first)} to ${count(device.first_event + Math.floor(to) - 1)}`],
    ['lasts', counted(Math.round(to - from), 'event')],
  ];
}
