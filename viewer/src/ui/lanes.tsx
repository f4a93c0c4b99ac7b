// Annotations and steps as lanes under the picture, on the same axis.

import { useAnswer } from './answers.js';
import { Lanes } from './canvas/lanes.js';
import { useGround } from './ground.js';
import { lookAt } from './moving.js';
import { LEFT } from './sizes.js';
import { change } from './state.js';

export function AnnotationLanes() {
  const ground = useGround();
  const { engine, place, axis, device, span, at, other } = ground;
  const answer = useAnswer(JSON.stringify([place, axis]), async () => {
    const { spans, marks } = device;
    const moments = Float64Array.from([
      ...spans.map(({ begin }) => begin),
      ...spans.map(({ end }) => end ?? device.events),
      ...marks.map(({ moment }) => moment),
      ...marks.map(({ moment, end }) => end ?? moment),
    ]);
    const x = await engine.xsOf(place, axis, moments);
    const [n, k] = [spans.length, marks.length];
    return {
      spans: spans.map(({ name }, i) => ({ name, from: x[i]!, to: x[n + i]! })),
      marks: marks.map(({ kind, text, end }, i) => ({
        kind,
        text,
        from: x[2 * n + i]!,
        to: end === null ? null : x[2 * n + k + i]!,
      })),
    };
  });
  const cursors = useAnswer(JSON.stringify([place, axis, at, other]), async () => ({
    at: await engine.xOf(place, axis, at),
    other: other === null ? null : await engine.xOf(place, axis, other),
  }));
  if (!answer.value || (!answer.value.spans.length && !answer.value.marks.length)) return null;
  return (
    <Lanes
      spans={answer.value.spans}
      marks={answer.value.marks}
      span={span}
      left={LEFT}
      cursor={cursors.value?.at ?? null}
      other={cursors.value?.other ?? null}
      onPick={async ({ from, to }) => {
        const [one, two] = await Promise.all([
          engine.momentAt(place, axis, from),
          engine.momentAt(place, axis, to),
        ]);
        change({ at: one, other: two });
      }}
      onZoom={({ from, to }) => lookAt(ground, { from, to })}
    />
  );
}
