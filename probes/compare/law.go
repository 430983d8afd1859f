package compare

import (
	"math"
	"slices"
)

// exactUpTo is the largest side whose law is computed by counting. Beyond it the
// normal law gives intervals that are wider by two counts of a thousand.
const exactUpTo = 50

// law is the distribution of Mann and Whitney's U for sides of m and n values that
// differ by accident alone: law[u] is the probability of U = u.
//
// The largest of all values is one of the m with the probability m/(m+n), and then
// it beats all n; else it is one of the n and beats nobody:
// count(m,n,u) = count(m-1,n,u-n) + count(m,n-1,u).
func law(m, n int) []float64 {
	rows := make([][]float64, n+1) // of m-1, then of m, by n
	for j := range rows {
		rows[j] = []float64{1}
	}
	for i := 1; i <= m; i++ {
		rows[0] = []float64{1}
		for j := 1; j <= n; j++ {
			next := make([]float64, i*j+1)
			first := float64(i) / float64(i+j)
			for u, p := range rows[j] { // m-1, n
				next[u+j] += first * p
			}
			for u, p := range rows[j-1] { // m, n-1
				next[u] += (1 - first) * p
			}
			rows[j] = next
		}
	}
	return rows[n]
}

// cut is how many of the m*n ordered differences are left out at each end, so that
// what remains bounds the shift with a one-sided error of at most alpha: the largest
// c with P(U < c) <= alpha, for which the interval runs from the c-th difference to
// the c-th from the end. 0 says that so few values bound nothing.
func cut(m, n int, alpha float64) int {
	if m > exactUpTo || n > exactUpTo {
		mean, sd := normalLaw(m, n)
		z := math.Sqrt2 * math.Erfinv(1-2*alpha)
		return max(0, int(math.Floor(mean-z*sd+0.5))) // +0.5: U has whole values
	}
	sum := 0.0
	for c, p := range law(m, n) {
		// Rounding must not take away a count whose probability is alpha itself.
		if sum += p; sum > alpha*(1+1e-9) {
			return c
		}
	}
	return 0
}

func normalLaw(m, n int) (mean, sd float64) {
	product := float64(m) * float64(n)
	return product / 2, math.Sqrt(product * float64(m+n+1) / 12)
}

// probability is the exact two-sided one of sides that are at least so far apart by
// accident: twice that of a rank sum as extreme as b's, at most 1. Equal values share
// their ranks, and the law is then that of these shared ranks.
func probability(a, b []float64) float64 {
	ranks, own := sharedRanks(a, b)
	if len(a) > exactUpTo || len(b) > exactUpTo {
		mean, sd := normalLaw(len(a), len(b))
		u := float64(own)/2 - float64(len(b)*(len(b)+1))/2
		z := max(0, math.Abs(u-mean)-0.5) / sd
		return math.Erfc(z / math.Sqrt2)
	}
	low, high, all := 0.0, 0.0, 0.0
	for sum, ways := range rankSums(ranks, len(b)) {
		all += ways
		if sum <= own {
			low += ways
		}
		if sum >= own {
			high += ways
		}
	}
	return min(1, 2*min(low, high)/all)
}

// sharedRanks are twice the ranks of all values, so that shared ones are whole
// numbers, and twice the sum of those of b.
func sharedRanks(a, b []float64) (ranks []int, sumOfB int) {
	all := slices.Concat(a, b)
	slices.Sort(all)
	twice := func(x float64) int {
		first, _ := slices.BinarySearch(all, x)
		after := first
		for after < len(all) && all[after] == x {
			after++
		}
		return first + after + 1
	}
	for _, x := range all {
		ranks = append(ranks, twice(x))
	}
	for _, x := range b {
		sumOfB += twice(x)
	}
	return ranks, sumOfB
}

// rankSums counts the ways to choose n of the ranks, by their sum.
func rankSums(ranks []int, n int) []float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	ways := make([][]float64, n+1)
	for k := range ways {
		ways[k] = make([]float64, total+1)
	}
	ways[0][0] = 1
	for _, r := range ranks {
		for k := n; k > 0; k-- { // downwards: each rank is chosen once
			for sum := total; sum >= r; sum-- {
				ways[k][sum] += ways[k-1][sum-r]
			}
		}
	}
	return ways[n]
}
