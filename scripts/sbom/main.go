// Command sbom prints the software bill of materials of a program that Go has built, as
// SPDX 2.3 in JSON: Go's library and the modules that the linker recorded in it.
//
//	sbom BINARY VERSION DATE
//
// The same program, version and date make the same document. It concludes no licences:
// NOTICES, which scripts/notices.sh makes of the same program, has their texts.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime/debug"
	"strings"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1) //nolint:forbidigo // a program of its own: it ends itself
	}
}

func run(args []string, out io.Writer) error {
	if len(args) != 3 {
		return errors.New("usage: sbom BINARY VERSION DATE")
	}
	info, err := buildinfo.ReadFile(args[0])
	if err != nil {
		return err
	}
	program, err := os.ReadFile(args[0]) //nolint:gosec // a path of the user's own
	if err != nil {
		return err
	}
	sum := sha256.Sum256(program)
	return spdxjson.Write(document(info, args[1], args[2], hex.EncodeToString(sum[:])), out, spdxjson.Indent("  "))
}

// setting returns what the program was built with.
func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// document describes the program with that SHA-256.
func document(info *debug.BuildInfo, version, date, sum string) *spdx.Document {
	platform := setting(info, "GOOS") + "/" + setting(info, "GOARCH")
	leafd := entry("leafd", info.Main.Path, version, "NOASSERTION")
	leafd.PackageLicenseConcluded, leafd.PackageLicenseDeclared = "Apache-2.0", "Apache-2.0"
	leafd.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: sum}}
	leafd.PackageComment = "for " + platform
	leafd.PrimaryPackagePurpose = "APPLICATION"
	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName: "leafd " + version + " " + platform,
		// Unique for each document, and no address of anything.
		DocumentNamespace: "https://" + info.Main.Path + "/spdx/" + version + "/" + platform + "/" + sum,
		CreationInfo: &spdx.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "leafd-scripts-sbom"}, {CreatorType: "Organization", Creator: "leafd authors"}},
			Created:  date,
		},
		Packages:      []*spdx.Package{leafd},
		Relationships: []*spdx.Relationship{relation("DOCUMENT", common.TypeRelationshipDescribe, leafd)},
	}
	library := entry("Go", "stdlib", strings.TrimPrefix(info.GoVersion, "go"), "https://go.dev/dl/"+info.GoVersion+".src.tar.gz")
	for _, p := range append([]*spdx.Package{library}, modules(info)...) {
		doc.Packages = append(doc.Packages, p)
		doc.Relationships = append(doc.Relationships, relation(leafd.PackageSPDXIdentifier, common.TypeRelationshipDependsOn, p))
	}
	return doc
}

func relation(from common.ElementID, how string, to *spdx.Package) *spdx.Relationship {
	return &spdx.Relationship{
		RefA: common.DocElementID{ElementRefID: from}, Relationship: how,
		RefB: common.DocElementID{ElementRefID: to.PackageSPDXIdentifier},
	}
}

// capital is written !c in the addresses of Go's module proxy.
var capital = regexp.MustCompile(`[A-Z]`)

func modules(info *debug.BuildInfo) []*spdx.Package {
	var all []*spdx.Package
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		source := capital.ReplaceAllStringFunc(m.Path+"/@v/"+m.Version+".zip", func(c string) string { return "!" + strings.ToLower(c) })
		p := entry(m.Path, m.Path, m.Version, "https://proxy.golang.org/"+source)
		p.PackageSourceInfo = "go.sum: " + m.Sum
		all = append(all, p)
	}
	return all
}

// unfit may not stand in an identifier of SPDX.
var unfit = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// entry is what goes for each package; path is the module's in its package URL.
func entry(name, path, version, source string) *spdx.Package {
	return &spdx.Package{
		PackageName:             name,
		PackageSPDXIdentifier:   common.ElementID("Package-" + unfit.ReplaceAllString(name, "-")),
		PackageVersion:          version,
		PackageDownloadLocation: source,
		PackageLicenseConcluded: "NOASSERTION",
		PackageLicenseDeclared:  "NOASSERTION",
		PackageCopyrightText:    "NOASSERTION",
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL,
			Locator: "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B"),
		}},
	}
}
