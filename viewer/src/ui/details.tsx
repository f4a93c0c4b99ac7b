// Details of one allocation: its size, when it was live, and the code that requested it.

import { useSignal } from '@preact/signals';
import type { Allocation, Stack } from '../protocol.js';
import { useAnswer } from './answers.js';
import { type Ground, groupLines, short, useGround } from './ground.js';
import { change } from './state.js';
import { count, fineDuration, size } from './units.js';

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

/** The lines to show: the few that fit in a tooltip, or all. */
export function AllocationLines(props: {
  ground: Ground;
  allocation: Allocation;
  brief?: boolean;
}) {
  const { ground, allocation: one, brief } = props;
  const group = one.groups.stack;
  const [name, ...callers] = group === undefined ? [] : groupLines(ground, 'stack', group);
  return (
    <div class="allocation" data-what="allocation" data-id={one.id}>
      <p class="headline">
        <strong data-what="allocation-bytes" data-bytes={one.requested}>
          {size(one.requested)}
        </strong>{' '}
        <span title={name ?? ''}>{brief ? short(name ?? '') : (name ?? '')}</span>
      </p>
      {brief &&
        callers.slice(0, 3).map((line) => (
          <p class="caller" key={line}>
            {short(line)}
          </p>
        ))}
      <dl class="pairs">
        <dt>requested</dt>
        <dd>{count(one.requested)} bytes</dd>
        <dt>block</dt>
        <dd>{count(one.block)} bytes</dd>
        <dt>made</dt>
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
                    <dd>{groupLines(ground, way, of)[0]}</dd>
                  </>
                );
              })}
          </>
        )}
      </dl>
    </div>
  );
}

/** A stack's frames, innermost first: only code, or all of them with plumbing dimmed. */
export function StackLines({ ground, stack }: { ground: Ground; stack: Stack }) {
  const all = useSignal(false);
  const { snapshot } = ground;
  const { functions, files, lines, sources } = ground.frames;
  if (!stack.frames.length) return <p class="dim">no stack was recorded</p>;
  const code = stack.code.some((one) => one === 1);
  const shown = Array.from(stack.frames, (frame, i) => ({
    frame,
    i,
    code: stack.code[i] === 1,
  })).filter((one) => all.value || one.code || !code);
  return (
    <>
      <ol class="frames">
        {shown.map(({ frame, i, code: own }) => {
          const file = snapshot.texts[files[frame]!] ?? '';
          const line = lines[frame]!;
          const source = snapshot.texts[sources[frame]! - 1];
          return (
            <li key={i} class={own ? 'code' : 'plumbing'}>
              <span>{snapshot.texts[functions[frame]!] || '(no function)'}</span>
              <span class="file">{file && `${file}${line ? `:${line}` : ''}`}</span>
              {source && <code class="source">{source}</code>}
            </li>
          );
        })}
      </ol>
      {code && (
        <button type="button" class="small" onClick={() => (all.value = !all.value)}>
          {all.value ? 'code only' : `all ${stack.frames.length} frames`}
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
      <AllocationLines ground={ground} allocation={allocation} />
      <StackLines ground={ground} stack={stack} />
    </section>
  );
}
