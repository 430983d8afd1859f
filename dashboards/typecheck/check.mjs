// Checks grafana/*.json against the types of Grafana itself.
//
//   cd dashboards/typecheck && npm install --ignore-scripts && npm run check
//
// Known differences are not errors: TypeScript wants names of enums where JSON has
// their values, and its types of a variable and of a query are the common part only.
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';

const boards = new URL('../grafana/', import.meta.url);
const out = new URL('./out/', import.meta.url);
const known = [
  /Type '"[\w-]+"' is not assignable to type '(ThresholdsMode|FieldColorModeId|MappingType)'/,
  /'"definition"' does not exist in type 'VariableModel'/,
  /'"(expr|editorMode|instant|range)"' does not exist in type 'DataQuery'/,
];

rmSync(out, { recursive: true, force: true });
mkdirSync(out);
const files = readdirSync(boards).filter((name) => name.endsWith('.json'));
for (const name of files) {
  const board = readFileSync(new URL(name, boards), 'utf8');
  writeFileSync(new URL(name.replace('.json', '.ts'), out), `import type { Dashboard } from '@grafana/schema';\nexport const board: Dashboard = ${board};\n`);
}
let report = '';
try {
  execFileSync('npx', ['tsc', '--noEmit', '--skipLibCheck', '--strict', '--module', 'esnext', '--moduleResolution', 'bundler', '--target', 'es2022',
    ...files.map((name) => `out/${name.replace('.json', '.ts')}`)], { cwd: new URL('.', import.meta.url), encoding: 'utf8' });
} catch (failed) {
  report = failed.stdout;
}
rmSync(out, { recursive: true });
const errors = report.split('\n').filter((line) => line.includes('error TS'));
const faults = errors.filter((line) => !known.some((pattern) => pattern.test(line)));
console.log(`${files.length} boards, ${errors.length - faults.length} known differences, ${faults.length} faults`);
console.log(faults.join('\n'));
process.exit(faults.length > 0 || files.length === 0 || (report !== '' && errors.length === 0) ? 1 : 0);
