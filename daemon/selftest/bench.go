package selftest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/truth"
)

// bench is sglang's bench_serving, where python3 has it.
type bench struct {
	folder string        // with a tokenizer, and for results
	start  time.Duration // processor time that it takes to begin; not the load's
}

// benchModule is how it is started.
var benchModule = []string{"-m", "sglang.bench_serving"}

// detailsFlag asks for the arrays by request; versions before mid 2025 lack it.
const detailsFlag = "--output-details"

// The smallest tokenizer that transformers reads: bench_serving makes its prompts
// with one and counts the answers with it.
var tokenizerFiles = map[string]string{
	"tokenizer.json": `{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,"pre_tokenizer":{"type":"WhitespaceSplit"},` +
		`"post_processor":null,"decoder":null,"model":{"type":"WordLevel","vocab":{"word":0,"tok":1},"unk_token":"word"}}`,
	"tokenizer_config.json": `{"tokenizer_class":"PreTrainedTokenizerFast","model_max_length":1000000}`,
}

// findBench starts bench_serving once. The caller removes the folder.
func findBench(ctx context.Context) (*bench, error) {
	probe := exec.CommandContext(ctx, "python3", append(benchModule, "--help")...)
	help, err := probe.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("start python3 %s: %w%s", strings.Join(benchModule, " "), err, lastLine(help))
	}
	if !bytes.Contains(help, []byte(detailsFlag)) {
		return nil, fmt.Errorf("this version of bench_serving has no %s, without which it says nothing of single requests", detailsFlag)
	}
	folder, err := os.MkdirTemp("", "inferbeat-selftest-")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	for name, text := range tokenizerFiles {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return nil, errors.Join(fmt.Errorf("write a tokenizer: %w", err), os.RemoveAll(folder))
		}
	}
	return &bench{folder, cpuOf(probe)}, nil
}

func (b *bench) close() { _ = os.RemoveAll(b.folder) }

func cpuOf(c *exec.Cmd) time.Duration {
	return c.ProcessState.UserTime() + c.ProcessState.SystemTime()
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return ": " + last
	}
	return ""
}

// measure sends one level. bench_serving keeps no instants, only differences, so
// that nothing can be said of its lag.
func (b *bench) measure(ctx context.Context, o Options, streams int) (Level, error) {
	level := Level{Client: clientBench, Streams: streams}
	o.Progress(fmt.Sprintf("%s, %d streams", clientBench, streams))
	server, known, err := startServer(ctx, o)
	if err != nil {
		return level, err
	}
	defer func() { _ = server.stop() }()
	results := filepath.Join(b.folder, strconv.Itoa(streams)+".jsonl")
	run := exec.CommandContext(ctx, "python3", append(benchModule,
		"--backend", "vllm", "--base-url", "http://"+known.Address, "--model", "truth", "--tokenizer", b.folder,
		"--dataset-name", "random-ids", "--random-input-len", "32", "--random-output-len", strconv.Itoa(o.script.tokens), "--random-range-ratio", "1",
		"--num-prompts", strconv.Itoa(streams*o.Rounds), "--max-concurrency", strconv.Itoa(streams), "--request-rate", strconv.FormatFloat(float64(streams)/o.script.request().Seconds(), 'f', 3, 64),
		"--output-file", results, detailsFlag, "--disable-tqdm")...)
	run.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
	if out, err := run.CombinedOutput(); err != nil {
		return level, fmt.Errorf("run bench_serving: %w%s", err, lastLine(out))
	}
	really, err := takeStreams(server)
	if err != nil {
		return level, err
	}
	text, err := os.ReadFile(results)
	if err != nil {
		return level, fmt.Errorf("read the result of bench_serving: %w", err)
	}
	d, err := readDetails(text)
	if err != nil {
		return level, fmt.Errorf("read the result of bench_serving: %w", err)
	}
	level.Figures = compareDetails(d, really.Streams)
	if level.Events > 0 {
		level.CPUPerEvent = probes.Known((cpuOf(run) - b.start).Seconds() / float64(level.Events))
		level.ServerCPUPerEvent = probes.Known(really.CPU.Seconds() / float64(level.Events))
	}
	return level, nil
}

// details are the arrays of bench_serving's --output-details, by request.
type details struct {
	TTFTs  []float64   `json:"ttfts"`
	ITLs   [][]float64 `json:"itls"`
	Texts  []string    `json:"generated_texts"`
	Errors []string    `json:"errors"`
}

// notJSON are the numbers that Python writes and JSON does not have: the request
// rate of a closed loop is one.
var notJSON = regexp.MustCompile(`: (-?Infinity|NaN)\b`)

// readDetails reads a result file of one run.
func readDetails(text []byte) (d details, err error) {
	err = json.Unmarshal(notJSON.ReplaceAll(bytes.TrimSpace(text), []byte(": null")), &d)
	return d, err
}

// ordinal is how an answer begins.
var ordinal = regexp.MustCompile(`^\s*r(\d+)`)

// compareDetails lays what bench_serving says beside the streams. It opens a
// connection for every request and counts that into the TTFT. Its own first
// request, which it does not report, is left out.
func compareDetails(d details, streams []truth.Stream) Figures {
	byOrdinal := map[string]*truth.Stream{}
	for i := range streams {
		byOrdinal[strconv.Itoa(streams[i].Ordinal)] = &streams[i]
	}
	f := Figures{Requests: len(d.TTFTs)}
	var fresh, itl pairs
	var late []float64
	var matched []truth.Stream
	var none int
	for i := range d.TTFTs {
		var st *truth.Stream
		if i < len(d.Texts) && i < len(d.ITLs) {
			if found := ordinal.FindStringSubmatch(d.Texts[i]); found != nil {
				st = byOrdinal[found[1]]
			}
		}
		if st == nil || st.Cut || len(d.ITLs[i])+1 != len(st.Sent) {
			f.Failed++
			if f.FirstError == "" && i < len(d.Errors) {
				f.FirstError = d.Errors[i]
			}
			continue
		}
		really, _ := st.TTFT()
		fresh.add(seconds(d.TTFTs[i]), really)
		matched = append(matched, *st)
		f.Events += len(st.Sent)
		for k, at := range st.Sent {
			late = append(late, (at - st.Due[k]).Seconds())
			if k == 0 {
				continue
			}
			gap := at - st.Sent[k-1]
			itl.add(seconds(d.ITLs[i][k-1]), gap)
			if d.ITLs[i][k-1] < collapsed*gap.Seconds() {
				none++
			}
		}
	}
	f.EventsPerSecond = pace(matched)
	f.ServerLate = spread(late)
	if n := len(itl.really); n > 0 {
		f.Collapsed = probes.Known(float64(none) / float64(n))
	}
	f.TTFTNew, f.ITL = fresh.reading(), itl.reading()
	return f
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
