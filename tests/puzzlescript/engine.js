// Run the original engine in Node: `node engine.js CHECKOUT < requests > answers`.
//
// CHECKOUT is a checkout of increpare/PuzzleScript (tested: 4db08ebe, 2026-08-15, MIT).
// A request is a line of JSON, and so is its answer:
//   {"source": TEXT}                              the compiled tables, or the errors
//   {"source": TEXT, "level": N, "inputs": [...]} also the board after every input; "draws": the
//                                                 random numbers to use, over and over; "stay":
//                                                 stop at a win instead of loading the next level
//   {..., "inputs": [...], "speed": true}         the processor seconds of the inputs
//   {"source": TEXT, "level": N, "solve": [...]}  a shortest solution from these inputs, or null if
//                                                 there is none among the first "most" boards;
//                                                 "boards_seen" and, if those are all, "exhausted"
// Inputs: 0 up, 1 left, 2 down, 3 right, 4 action, "tick", "undo", "restart".
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const checkout = process.argv[2];
const FILES = ['storagewrapper', 'bitvec', 'level', 'languageConstants', 'globalVariables', 'debug', 'font',
    'rng', 'riffwave', 'sfxr', 'codemirror/stringstream', 'colorhelpers', 'colors', 'engine', 'parser',
    'compiler', 'soundbar'];

// What the engine expects of a browser.
const kept = {};
const nothing = () => {};
global.localStorage = { getItem: k => (k in kept ? kept[k] : null), setItem: (k, v) => { kept[k] = v; }, removeItem: k => delete kept[k] };
const element = () => ({ style: {}, getContext: () => null, classList: { contains: () => false }, addEventListener: nothing });
global.document = { URL: 'engine', body: element(), createElement: element, getElementById: () => null };
global.window = global;
for (const name of ['canvasResize', 'redraw', 'forceRegenImages', 'consolePrint', 'consolePrintFromRule', 'consoleError',
    'consoleCacheDump', 'addToDebugTimeline', 'killAudioButton', 'showAudioButton', 'regenSpriteImages', 'jumpToLine',
    'printLevel', 'playSound', 'console_print_raw']) global[name] = nothing;
Object.assign(global, { canvas: null, input: element(), lastDownTarget: null, levelString: '', inputString: '', outputString: '' });
global.editor = { getValue: () => global.levelString };
global.PuzzleScriptTestAssertions = { push: nothing, equal: nothing };
global.UnitTestingThrow = error => { throw error; };

const code = FILES.map(name => fs.readFileSync(path.join(checkout, 'src/js', name + '.js'), 'utf8')).join('\n');
// One script, because the files share top-level names. The last lines let this file reach them, and make the engine play
// as outside of its editor, where it does not stop if a rigid group does not exist.
vm.runInThisContext(code + `
;IDE = false;
global.engine = {
    start() { unitTesting = true; lazyFunctionGeneration = false; resetParserErrorState(); },
    errors: () => errorStrings, count: () => errorCount, state: () => state, level: () => level,
    curlevel: () => curlevel, settle() { let n = 0; while (againing && n++ < 500) { againing = false; processInput(-1); } return n; },
    restore(saved) { restoreLevel(saved[0]); restartTarget = saved[1]; backups = []; winning = false; },
    saved: () => [backupLevel(), restartTarget], stay(on) { nextLevel = on ? () => { winning = true; } : engine.next; }, next: nextLevel,
    restartTarget: () => restartTarget, uniform: RNG.prototype.uniform, draw(uniform) { RNG.prototype.uniform = uniform; }, winning: () => winning,
};`, { filename: 'engine' });
global.stripHTMLTags = text => text.replace(/<\/?[a-zA-Z][^>]*>/g, '').trim();

const big = words => words.data.reduceRight((all, word) => (all << 32n) | BigInt(word >>> 0), 0n).toString();

function cell(pattern) {
    if (Array.isArray(pattern)) return null;  // an ellipsis
    const r = pattern.replacement;
    return {
        op: big(pattern.objectsPresent), om: big(pattern.objectsMissing), any: pattern.anyObjectsPresent.map(big),
        mp: big(pattern.movementsPresent), mm: big(pattern.movementsMissing),
        replace: r && { oc: big(r.objectsClear), os: big(r.objectsSet), mc: big(r.movementsClear), ms: big(r.movementsSet),
            ml: big(r.movementsLayerMask), re: big(r.randomEntityMask), rd: big(r.randomDirMask) },
    };
}

const groups = list => list.map(group => group.map(rule => ({
    direction: rule.direction, line: rule.lineNumber, rigid: rule.rigid, random: rule.isRandom, commands: rule.commands,
    replaces: rule.hasReplacements, rows: rule.patterns.map(row => row.map(cell)),
})));

function tables() {
    const s = engine.state();
    return {
        ids: s.idDict, layers: s.collisionLayers.length, background: [s.backgroundid, s.backgroundlayer],
        layerOf: s.idDict.map(name => s.objects[name].layer),
        player: [!!s.playerMask[0], big(s.playerMask[1])],
        rules: groups(s.rules), late: groups(s.lateRules), loop: Object.entries(s.loopPoint), lateLoop: Object.entries(s.lateLoopPoint),
        rigid: s.rigidGroupIndex_to_GroupIndex,
        wins: s.winconditions.map(w => [w[0], big(w[1]), big(w[2]), w[3], w[4], w[5]].map(x => typeof x === 'object' ? String(x) : x)),
        metadata: s.metadata,
        sprites: s.idDict.map(name => [s.objects[name].colors, s.objects[name].spritematrix]),
        levels: s.levels.map(l => l.message !== undefined ? { message: l.message } :
            { width: l.width, height: l.height, objects: board(l) }),
    };
}

const board = l => Array.from({ length: l.n_tiles }, (_, i) => big(l.getCell(i)));

function load(request) {
    const before = engine.state();
    compile(['loadLevel', request.level || 0], request.source, request.seed === undefined ? null : request.seed);
    // If the engine refuses a game, it would go on with the previous one.
    if (engine.state() === before) throw new Error('the engine refuses the game');
    engine.settle();
}

function enter(value) {
    if (value === 'undo') DoUndo(false, true);
    else if (value === 'restart') DoRestart();
    else processInput(value === 'tick' ? -1 : value);
    engine.settle();
}

function play(request) {
    let drawn = 0;
    const seen = [];
    const see = () => seen.push({ board: board(engine.level()), level: engine.curlevel(), drawn, won: engine.winning() });
    engine.draw(request.draws ? () => request.draws[drawn++ % request.draws.length] : engine.uniform);
    engine.stay(request.stay);
    load(request);
    see();
    for (const value of request.inputs) {
        if (engine.winning()) break;
        enter(value);
        see();
    }
    return seen;
}

// Seconds that the inputs take; a level that is won goes on.
function seconds(request) {
    engine.stay(true);
    load(request);
    const start = process.cpuUsage();
    for (const value of request.inputs) enter(value);
    const used = process.cpuUsage(start);
    return (used.user + used.system) / 1e6;
}

// Search breadth-first. The command `checkpoint` makes the board to which `restart` returns part of a state.
function solve(request) {
    const words = part => Buffer.from(new Int32Array(part.dat).buffer).toString('latin1');
    const key = saved => words(saved[0]) + words(saved[1]);
    engine.stay(true);
    load(request);
    let wave = [[engine.saved(), null]];
    const seen = new Set([key(wave[0][0])]);
    const found = (solution, exhausted) => ({ solution, exhausted, boards_seen: seen.size });
    while (wave.length > 0) {
        const next = [];
        for (const node of wave) {
            for (const value of request.solve) {
                engine.restore(node[0]);
                enter(value);
                const made = [engine.saved(), [value, node[1]]];
                if (engine.winning()) {
                    const path = [];
                    for (let step = made[1]; step; step = step[1]) path.unshift(step[0]);
                    return found(path, false);
                }
                const name = key(made[0]);
                if (seen.has(name)) continue;
                if (seen.size >= request.most) return found(null, false);
                seen.add(name);
                next.push(made);
            }
        }
        wave = next;
    }
    return found(null, true);
}

function answer(request) {
    engine.start();
    const result = {};
    try {
        if (request.speed) result.seconds = seconds(request);
        else if (request.inputs) result.boards = play(request);
        else if (request.solve) Object.assign(result, solve(request));
        else compile(['restart'], request.source);
        result.tables = (request.inputs || request.solve) && !request.tables ? undefined : tables();
    } catch (error) {
        result.crash = String(error.stack).slice(0, 400);
    }
    result.errors = engine.errors().map(stripHTMLTags);
    result.count = engine.count();
    return result;
}

let rest = '';
process.stdin.on('data', part => {
    rest += part;
    let end;
    while ((end = rest.indexOf('\n')) >= 0) {
        const line = rest.slice(0, end);
        rest = rest.slice(end + 1);
        fs.writeSync(1, JSON.stringify(answer(JSON.parse(line))) + '\n');
    }
});
