// The visible part of the recording, the windows around it, and the direction of the peak.

import { useAnswer } from './answers.js';
import { SavePicture } from './copying.js';
import { mode, toggleMode } from './gestures.js';
import { eventOf, useGround } from './ground.js';
import { ALL, pan, zoomBy } from './moving.js';
import { Curves } from './overview.js';
import { FullButton } from './panes.js';
import { pictureSvg } from './pictures.js';
import { showsSegments } from './segments.js';
import { change } from './state.js';
import { count, duration, fineDuration, counted as numbered, percent, size } from './units.js';

export function Windows() {
  const ground = useGround();
  const { span, whole, axis, engine, place, counted, device, state } = ground;
  const all = span.from <= whole.from && span.to >= whole.to;
  const inside = useAnswer(JSON.stringify([place, counted, axis, span]), async () => {
    const [from, to] = await Promise.all([
      engine.momentAt(place, axis, span.from),
      engine.momentAt(place, axis, span.to),
    ]);
    const [peak] = await engine.peaks(place, state.measure, from, Math.max(to, from + 1), 1);
    return { peak, from, to };
  });
  const found = inside.value;
  const title = `${ground.snapshot.name}: ${showsSegments(ground) ? 'reserved' : ground.counted} bytes, device ${ground.device.device}`;
  const peak = device.peaks[state.measure];
  const before = peak.moment < (found?.from ?? 0);
  const after = found !== null && peak.moment > found.to;
  const range = all
    ? axis === 'event'
      ? `${device.events > 1 ? 'all ' : ''}${numbered(device.events, 'event')}`
      : `all of ${duration(device.last_us ?? 0)}`
    : axis === 'event'
      ? `events ${count(Math.max(eventOf(ground, Math.ceil(span.from)), 0))}–${count(eventOf(ground, Math.floor(span.to)))}`
      : `${fineDuration(Math.round(span.from))} to ${fineDuration(Math.round(span.to))}`;
  return (
    <div class="windows">
      <button
        type="button"
        class="small"
        disabled={span.from <= whole.from}
        onClick={() => pan(ground, -1)}
        title="Previous window (Page up)"
      >
        ‹{before && <b title="the highest peak is this way"> ▲</b>}
      </button>
      <button
        type="button"
        class="small"
        disabled={span.to >= whole.to}
        onClick={() => pan(ground, 1)}
        title="Next window (Page down)"
      >
        {after && <b title="the highest peak is this way">▲ </b>}›
      </button>
      <button
        type="button"
        class="small"
        onClick={() => void zoomBy(ground, 0.5)}
        title="Zoom in (+)"
      >
        +
      </button>
      <button
        type="button"
        class="small"
        onClick={() => void zoomBy(ground, 2)}
        disabled={all}
        title="Zoom out (-)"
      >
        −
      </button>
      <button
        type="button"
        class="small"
        onClick={() => ground.change(ALL)}
        disabled={all && state.high === null}
        title="Whole recording (0)"
      >
        all
      </button>
      <button
        type="button"
        class="small"
        aria-pressed={mode.value === 'range'}
        title="Drag over the picture to select a range (or hold Shift)"
        onClick={() => toggleMode('range')}
      >
        range
      </button>
      <button
        type="button"
        class="small"
        aria-pressed={mode.value === 'box'}
        title="Drag over the picture to zoom to a box (or hold Alt; z)"
        onClick={() => toggleMode('box')}
      >
        box
      </button>
      <span
        class="range"
        data-what="range"
        title={`${range}, ${percent((span.to - span.from) / (whole.to - whole.from))} of the recording`}
      >
        {range}
        {!all && found?.peak && `, up to ${size(found.peak.bytes)}`}
      </span>
      <div class="tools">
        <Curves />
        <FullButton
          name="picture"
          hint="f"
          on={state.full === 'picture'}
          act={() => change({ full: state.full === 'picture' ? null : 'picture' })}
        />
        <SavePicture name="memory" picture={() => pictureSvg(title, place)} />
      </div>
    </div>
  );
}
