//go:build long

package webtest

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"slices"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// Screenshot writes the whole page as a PNG of at most 256 colors: a third of the size,
// without a visible difference.
func (p *Page) Screenshot(path string) {
	p.t.Helper()
	var picture []byte
	p.run(chromedp.Evaluate(`scrollTo(0, 0)`, nil), chromedp.FullScreenshot(&picture, 100))
	full, err := png.Decode(bytes.NewReader(picture))
	require.NoError(p.t, err)
	var small bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	require.NoError(p.t, encoder.Encode(&small, withPalette(full)))
	require.NoError(p.t, os.WriteFile(path, small.Bytes(), 0o644))
}

func withPalette(full image.Image) *image.Paletted {
	bounds := full.Bounds()
	often := map[color.Color]int{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			often[full.At(x, y)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(often), func(a, b color.Color) int { return often[b] - often[a] })
	small := image.NewPaletted(bounds, palette(colors))
	index := map[color.Color]uint8{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			c := full.At(x, y)
			at, known := index[c]
			if !known {
				at = uint8(small.Palette.Index(c))
				index[c] = at
			}
			small.SetColorIndex(x, y, at)
		}
	}
	return small
}

// palette takes the first of the colors, which are areas, and of the rest those that
// aren't close to one taken: a rare color that stands out, such as a red mark, stays.
func palette(colors []color.Color) color.Palette {
	const areas = 64
	taken := color.Palette(colors[:min(len(colors), areas)])
	colors = colors[len(taken):]
	taken = slices.Clip(taken)
	for _, c := range colors {
		if len(taken) == 256 {
			break
		}
		if distance(c, taken.Convert(c)) > 0x1200 {
			taken = append(taken, c)
		}
	}
	return taken
}

// distance returns how far two colors differ, in all three parts together.
func distance(a, b color.Color) int {
	sum := 0
	ar, ag, ab, _ := a.RGBA()
	br, bg, bb, _ := b.RGBA()
	for _, d := range []int{int(ar) - int(br), int(ag) - int(bg), int(ab) - int(bb)} {
		sum += max(d, -d)
	}
	return sum
}
