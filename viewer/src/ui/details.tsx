// Details of one allocation: its size, when it was live, and the code that requested it.

import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import type { Allocation, Stack } from '../protocol.js';
import { useAnswer } from './answers.js';
import { frameName } from './flame.js';
import { type Ground, groupLines, useGround } from './ground.js';
import { elided, groupWords, placeOf, withoutParameters } from './labels.js';
import { change } from './state.js';
import { count, fineDuration, size } from './units.js';

/** Characters of a name in a tooltip. */
const MOST = 300;
/** Files whose lines are addresses. */
const BINARY = /\.so(\.\d+)*$/;

function life(one: Allocation, ground: Ground): string {
  const { madeUs, freedUs, made, freed } = one;
  if (made === null && freed === null) return 'all of the recording';
  if (freed === null) return 'until the end of the recording';
  const events = made === null ? null : freed - made;
  const time =
    madeUs !== null && freedUs !== null && made !== null ? fineDuration(freedUs - madeUs) : null;
  const words = [time, events === null ? null : `${count(events)} events`].filter(Boolean);
  return words.length ? words.join(', ') : `${ground.device.events} events`;
}

/** An allocation's size and name, the given lines, and its numbers: those that fit in a tooltip, or
 * all. */
export function AllocationLines(props: {
  ground: Ground;
  allocation: Allocation;
  brief?: boolean;
  children?: ComponentChildren;
}) {
  const { ground, allocation: one, brief } = props;
  const group = one.groups.stack;
  const [name = ''] = group === undefined ? [] : groupWords(ground, 'stack', group, brief);
  const whole = group === undefined ? '' : groupLines(ground, 'stack', group).join('\n');
  return (
    <div class="allocation" data-what="allocation" data-id={one.id}>
      <p class="headline" title={whole}>
        <strong data-what="allocation-bytes" data-bytes={one.requested}>
          {size(one.requested)}
        </strong>{' '}
        {brief ? elided([name], MOST) : name}
      </p>
      {props.children}
      <dl class="pairs">
        <dt>requested</dt>
        <dd>{count(one.requested)} bytes</dd>
        <dt>block</dt>
        <dd>{count(one.block)} bytes</dd>
        <dt>allocated</dt>
        <dd>{one.made === null ? 'before the recording' : `event ${count(one.made)}`}</dd>
        <dt>freed</dt>
        <dd>
          {one.freed === null ? 'not in the recording' : `event ${count(one.freed)}`}
          {one.asked !== null && one.freed !== null && one.asked !== one.freed
            ? `, requested at ${count(one.asked)}`
            : ''}
        </dd>
        <dt>lived</dt>
        <dd>{life(one, ground)}</dd>
        {!brief && (
          <>
            <dt>address</dt>
            <dd>{one.address}</dd>
            {ground.device.groups
              .filter(({ detail }) => detail)
              .map(({ way, title }) => {
                const of = one.groups[way];
                return of === undefined ? null : (
                  <>
                    <dt>{title}</dt>
                    <dd>{groupWords(ground, way, of)[0]}</dd>
                  </>
                );
              })}
          </>
        )}
      </dl>
    </div>
  );
}

/** A stack's frames, innermost first: only code, or all of them with plumbing dimmed. `most`: how
 * many lines there is room for, if they can't be scrolled. */
export function StackLines(props: { ground: Ground; stack: Stack; most?: number }) {
  const { ground, stack, most } = props;
  const all = useSignal(false);
  const { snapshot } = ground;
  const { functions, files, lines, sources, inner } = ground.frames;
  if (!stack.frames.length) return <p class="dim">no stack was recorded</p>;
  const code = stack.code.some((one) => one === 1);
  // Without code, the innermost frames, which are the same in all stacks, aren't shown, nor frames
  // whose functions aren't known.
  const first = code ? 0 : stack.frames.findIndex((frame) => !inner[frame]);
  const named = (frame: number) => snapshot.texts[functions[frame]!] !== '??';
  const chosen = Array.from(stack.frames, (frame, i) => ({
    frame,
    i,
    code: stack.code[i] === 1,
  })).filter((one) => all.value || one.code || (!code && one.i >= first && named(one.frame)));
  const shown = most === undefined || chosen.length <= most ? chosen : chosen.slice(0, most - 1);
  return (
    <>
      <ol class="frames">
        {shown.map(({ frame, i, code: own }) => {
          const file = files[frame]!;
          const line = lines[frame]!;
          const source = snapshot.texts[sources[frame]! - 1];
          const name = snapshot.texts[functions[frame]!] || '(no function)';
          return (
            <li
              key={i}
              class={own ? 'code' : 'plumbing'}
              title={`${name}\n${frameName(ground, frame).detail}`}
            >
              {most === undefined && snapshot.texts[file] && !BINARY.test(snapshot.texts[file]) ? (
                <button
                  type="button"
                  class="plain file"
                  onClick={() => change({ file, tab: 'file' })}
                >
                  {placeOf(snapshot, file, line)}
                </button>
              ) : (
                <span class="file">{placeOf(snapshot, file, line, true)}</span>
              )}{' '}
              <span>{withoutParameters(name)}</span>
              {source && most === undefined && <code class="source">{source}</code>}
            </li>
          );
        })}
        {shown.length < chosen.length && (
          <li class="dim">… {chosen.length - shown.length} more, click</li>
        )}
      </ol>
      {(code || first > 0) && most === undefined && (
        <button type="button" class="small" onClick={() => (all.value = !all.value)}>
          {all.value ? 'fewer frames' : `all ${stack.frames.length} frames`}
        </button>
      )}
    </>
  );
}

/** The details of the allocation that was clicked. */
export function Details() {
  const ground = useGround();
  const { engine, place, state } = ground;
  const answer = useAnswer(JSON.stringify([place, state.pin]), async () => {
    if (state.pin === null) return null;
    const allocation = await engine.allocation(place, state.pin);
    return { allocation, stack: await engine.stack(place.snapshot, allocation.stack) };
  });
  if (state.pin === null || !answer.value) return null;
  const { allocation, stack } = answer.value;
  return (
    <section class="details" aria-label="The selected allocation">
      <button
        type="button"
        class="close"
        aria-label="Deselect"
        onClick={() => change({ pin: null })}
      >
        ×
      </button>
      <AllocationLines ground={ground} allocation={allocation}>
        <StackLines ground={ground} stack={stack} />
      </AllocationLines>
    </section>
  );
}
