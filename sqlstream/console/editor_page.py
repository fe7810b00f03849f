"""The page of the SQL editor. All that comes from texts and rows becomes text of the page by ``textContent``."""

from __future__ import annotations

_ASK_MS, _TYPED_MS = 700, 200

STYLE = """
textarea { width: 100%; min-height: 11rem; font: 14px/1.5 ui-monospace, monospace; padding: .7rem; border-radius: 6px;
  border: 1px solid var(--line); background: var(--box); color: inherit; resize: vertical; tab-size: 2; }
textarea:focus-visible { outline: 3px solid var(--c0); outline-offset: 1px; }
.typed { position: relative; } #suggestions { list-style: none; margin: 0; padding: 0; max-height: 14rem; z-index: 1;
  overflow-y: auto; border-radius: 6px; border: 1px solid var(--line); background: Canvas; position: absolute;
  top: 100%; left: 0; right: 0; } #suggestions[hidden] { display: none; }
#suggestions li { display: flex; gap: 1rem; justify-content: space-between; padding: .25rem .7rem; cursor: pointer;
  font: 13px/1.5 ui-monospace, monospace; } #suggestions li span { opacity: .75; overflow-wrap: anywhere; }
#suggestions li[aria-selected=true] { background: var(--box); outline: 2px solid var(--c0); outline-offset: -2px; }
#problems { margin: .3rem 0; padding: 0; list-style: none; font-size: .9rem; }
#problems .warning { color: var(--warn); }
#problems .wrong { color: var(--bad); } #result { max-height: 32rem; overflow: auto; } #result .null { opacity: .6; }
#error { white-space: pre-wrap; } #error:empty { display: none; }
"""

SCRIPT = """
const text = document.getElementById('text'), list = document.getElementById('suggestions');
const form = document.getElementById('editor').elements.form.value;
let shown = [], chosen = -1, run = null, version = null, typed = 0, timer = null;

async function ask(path, fields) {
  const body = fields && new URLSearchParams({form, ...fields});
  const answer = await fetch(path, {method: body ? 'POST' : 'GET', body, cache: 'no-store'});
  if (!answer.ok) throw new Error(answer.status === 401 ? 'The page was opened too long ago: load it again.'
    : await answer.text());
  return answer.json();
}
function make(tag, words, kind) {
  const made = document.createElement(tag);
  if (words !== undefined) made.textContent = words;
  if (kind) made.className = kind;
  return made;
}
// The server counts characters, a text of JavaScript has two units for some of them.
const points = units => [...text.value.slice(0, units)].length;
const units = points => [...text.value].slice(0, points).join('').length;

async function complete() {
  const at = text.selectionStart, asked = ++typed;
  let found = [];
  try { found = await ask('complete', {text: text.value, at: points(at)}); } catch { }
  if (asked !== typed || at !== text.selectionStart) return;
  shown = found.map(one => ({...one, end: at}));
  list.replaceChildren(...shown.map((one, i) => {
    const item = make('li');
    item.id = 's' + i;
    item.setAttribute('role', 'option');
    item.append(make('b', one.text), make('span', one.detail || one.kind));
    item.addEventListener('mousedown', event => { event.preventDefault(); accept(i); });
    return item;
  }));
  choose(shown.length ? 0 : -1);
}
function choose(i) {
  chosen = i;
  list.hidden = i < 0;
  text.setAttribute('aria-expanded', String(i >= 0));
  [...list.children].forEach((item, j) => item.setAttribute('aria-selected', String(i === j)));
  if (i < 0) text.removeAttribute('aria-activedescendant');
  else { text.setAttribute('aria-activedescendant', 's' + i); list.children[i].scrollIntoView({block: 'nearest'}); }
}
function accept(i) {
  const one = shown[i];
  text.setRangeText(one.text, units(one.start), one.end, 'end');
  choose(-1);
  text.focus();
  later();
}
function later(completes) {
  typed++;
  clearTimeout(timer);
  timer = setTimeout(async () => {
    if (completes) complete();
    try {
      const problems = text.value.trim() ? await ask('check', {text: text.value}) : [];
      document.getElementById('problems').replaceChildren(...problems.map(problem =>
        make('li', (problem.line ? 'line ' + problem.line + ': ' : '') + problem.text,
          problem.warning ? 'warning' : 'wrong')));
    } catch { }
  }, TYPED);
}
text.addEventListener('input', event => {
  choose(-1);
  const word = text.value.slice(0, text.selectionStart).match(/[\\w.']$/u);
  later(Boolean(word) && event.inputType !== 'deleteContentBackward');
});
text.addEventListener('blur', () => choose(-1));
text.addEventListener('keydown', event => {
  const control = event.ctrlKey || event.metaKey;
  if (control && event.key === 'Enter') { event.preventDefault(); start(); }
  else if (control && event.key === ' ') { event.preventDefault(); complete(); }
  else if (chosen >= 0) {
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (step) { event.preventDefault(); choose((chosen + step + shown.length) % shown.length); }
    else if (event.key === 'Enter' || event.key === 'Tab') { event.preventDefault(); accept(chosen); }
    else if (event.key === 'Escape') { event.preventDefault(); choose(-1); }
  }
});

function tell(words, error) {
  document.getElementById('state').textContent = words;
  document.getElementById('error').textContent = error || '';
}
async function start() {
  if (run !== null) await stop();
  typed++;  // no completions of what was typed before
  clearTimeout(timer);
  choose(-1);
  tell('STARTING', '');
  document.getElementById('result').replaceChildren();
  try {
    run = (await ask('run', {text: text.value})).run;
    version = null;
    look(run);
  } catch (error) { run = null; tell('FAILED', error.message); }
}
async function stop() {
  const ending = run;
  if (ending === null) return;
  try { await ask('runs/' + ending + '/stop', {}); } catch (error) { tell('', error.message); }
}
async function look(asked) {
  let answer;
  try { answer = await ask('runs/' + asked + '?known=' + version); }
  catch (error) {
    if (run === asked) { tell('', error.message); setTimeout(() => look(asked), 5 * ASK); }
    return;
  }
  if (run !== asked) return;
  version = answer.version;
  if (answer.rows) draw(answer);
  tell(answer.state + (answer.total ? ', ' + answer.total.toLocaleString('en') + ' rows' +
    (answer.total > MOST ? ', MOST of them shown' : '') : ''), answer.error);
  if (['FINISHED', 'STOPPED', 'FAILED'].includes(answer.state)) run = null;
  else setTimeout(() => look(asked), ASK);
}
function draw(answer) {
  const table = make('table'), head = table.createTHead().insertRow(), body = table.createTBody();
  for (const name of answer.columns) { const cell = make('th', name); cell.scope = 'col'; head.append(cell); }
  for (const row of answer.rows) {
    const line = body.insertRow();
    for (const value of row) line.append(value === null ? make('td', 'NULL', 'null') : make('td', value));
  }
  document.getElementById('result').replaceChildren(table);
}
document.getElementById('editor').addEventListener('submit', event => { event.preventDefault(); start(); });
document.getElementById('stop').addEventListener('click', stop);
""".replace("ASK", str(_ASK_MS)).replace("TYPED", str(_TYPED_MS))


def editor_body(form: str, most_rows: int) -> tuple[str, str]:
    """The body of the page and its script. ``form``: the value by which what it sends shows that it is of this page."""
    body = (
        '<header><a href="/">Jobs</a><h1>SQL</h1></header><main>'
        '<noscript><p class="bad">The editor needs scripts, which this browser does not run.</p></noscript>'
        f'<form id="editor" method="post" action="run"><input type="hidden" name="form" value="{form}">'
        '<label for="text">Definitions, and a query at the end</label>'
        '<div class="typed"><textarea id="text" name="text" spellcheck="false" autocapitalize="off" autocomplete="off" '
        'autofocus role="combobox" aria-expanded="false" aria-controls="suggestions" aria-autocomplete="list" '
        'aria-describedby="keys"></textarea>'
        '<ul id="suggestions" role="listbox" aria-label="Completions" hidden></ul></div>'
        '<ul id="problems" role="status" aria-label="Problems"></ul>'
        '<button>Run</button><button type="button" id="stop">Stop</button>'
        '<p id="keys" class="small">Ctrl+Enter runs it, Ctrl+Space completes; arrows and Enter choose, Escape closes.'
        "</p></form>"
        '<section aria-label="Result"><p role="status" id="state"></p><pre id="error" class="bad" role="alert"></pre>'
        '<div id="result" class="wide rows" tabindex="0" aria-label="Rows"></div></section></main>'
    )
    return body, SCRIPT.replace("MOST", str(most_rows))
