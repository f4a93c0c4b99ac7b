// Failed requests: a line below the verdict that explains one of them, and marks on the picture.

import { useAnswer } from './answers.js';
import { type Ground, useGround } from './ground.js';
import { elided } from './labels.js';
import { goTo, lookAt, markMoments, middle, momentName } from './moving.js';
import { quoted } from './quoting.js';
import { LEFT } from './sizes.js';
import { size } from './units.js';

/** Events to show before and after a failed request. */
const [BEFORE, AFTER] = [120, 30];
/** Marks nearer to each other than this many pixels are one, with a number. */
const NEAR = 12;
/** Characters of the code that made the request. */
const CODE = 160;
/** The maximum number of names in a mark's text. */
const NAMES = 10;

/** Moves the cursor to a moment, and shows some events around it. */
async function showAround(ground: Ground, moment: number): Promise<void> {
  const { engine, place, axis, device, change } = ground;
  const [from, to] = await Promise.all([
    engine.xOf(place, axis, Math.max(moment - BEFORE, 0)),
    engine.xOf(place, axis, Math.min(moment + AFTER, device.events)),
  ]);
  change({ at: moment });
  lookAt(ground, { from, to: to + 1 });
}

/** What failed, why, and what would have helped: the failed request at the cursor or before it. */
export function FailureLine() {
  const ground = useGround();
  const { device, snapshot, at } = ground;
  const moments = markMoments(ground, 'oom');
  if (!moments.length) return null;
  const i = Math.max(moments.filter((one) => one <= at).length - 1, 0);
  const moment = moments[i]!;
  const told = device.ooms.find((one) => one.moment === moment);
  const mark = device.marks.find((one) => one.kind === 'oom' && one.moment === moment);
  const command = ['memreplay', 'oom', snapshot.file, ...snapshot.options, '--oom', String(i + 1)];
  if (snapshot.devices.length > 1) command.push('--device', String(device.device));
  const go = (name: string, title: string, to: number | undefined) => (
    <button
      type="button"
      class="small"
      title={title}
      aria-label={title}
      disabled={to === undefined}
      onClick={() => void goTo(ground, to!)}
    >
      {name}
    </button>
  );
  return (
    <div class="failure" data-what="failure" data-moment={moment}>
      <p>
        <span>
          <b>{mark?.text}</b>
          {told?.asked_by && <span title={told.asked_by}> at {elided([told.asked_by], CODE)}</span>}
          , {momentName(ground, moment)}
          {told && `: ${told.cause}`}
        </span>
        <span>
          {moments.length > 1 && (
            <>
              {go('‹', 'Previous failed request (O)', moments[i - 1])} {i + 1} of {moments.length}{' '}
              {go('›', 'Next failed request (o)', moments[i + 1])}{' '}
            </>
          )}
          <button
            type="button"
            class="small"
            title="Put the cursor on it and zoom in"
            onClick={() => void showAround(ground, moment)}
          >
            show
          </button>
        </span>
      </p>
      {told && (
        <p>
          {told.text} {size(told.cached_bytes)} was cached, but unusable for this request.
        </p>
      )}
      <p>
        {told?.remedies.map(([name, text]) => (
          <span key={name}>
            <b>{name}</b> {text}
          </span>
        ))}
        {!told?.remedies.length && (
          <span>
            What would have helped: <code>{command.map(quoted).join(' ')}</code>
          </span>
        )}
      </p>
    </div>
  );
}

/** Marks of failed requests on top of the picture; marks at the same place have a number. */
export function FailureMarks({ width }: { width: number }) {
  const ground = useGround();
  const { engine, place, axis, span, device } = ground;
  const marks = device.marks.filter(({ kind }) => kind === 'oom');
  const answer = useAnswer(JSON.stringify([place, axis]), () =>
    engine.xsOf(
      place,
      axis,
      Float64Array.from(marks, ({ moment }) => moment),
    ),
  );
  const half = middle(axis);
  const shown: { px: number; of: typeof marks }[] = [];
  answer.value?.forEach((x, i) => {
    const mark = marks[i];
    const px = ((x + half - span.from) / (span.to - span.from)) * width;
    if (!mark || px < 0 || px > width) return;
    const last = shown[shown.length - 1];
    if (last && px - last.px < NEAR) last.of.push(mark);
    else shown.push({ px, of: [mark] });
  });
  return (
    <>
      {shown.map(({ px, of }) => {
        const names = of
          .slice(0, NAMES)
          .map(({ text, moment }) => `${text}, ${momentName(ground, moment)}`);
        if (of.length > NAMES) names.push(`… ${of.length - NAMES} more`);
        return (
          <button
            type="button"
            key={of[0]!.moment}
            class="oom-mark"
            tabIndex={-1}
            data-count={of.length}
            style={{ left: `${LEFT + px}px` }}
            title={names.join('\n')}
            aria-label={names.join('; ')}
            onPointerDown={(event) => event.stopPropagation()}
            onClick={() => void goTo(ground, of[0]!.moment)}
          >
            {of.length > 1 ? of.length : ''}
          </button>
        );
      })}
    </>
  );
}
