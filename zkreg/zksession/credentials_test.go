package zksession

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseCredentials(t *testing.T) {
	for name, test := range map[string]struct {
		content  string
		user     string
		password string
		wants    string // of the error
	}{
		"plain":            {content: "leafd:secret", user: "leafd", password: "secret"},
		"newline":          {content: "leafd:secret\n", user: "leafd", password: "secret"},
		"from Windows":     {content: "leafd:secret\r\n", user: "leafd", password: "secret"},
		"colons":           {content: "leafd:a:b:", user: "leafd", password: "a:b:"},
		"spaces":           {content: " leafd : se cret \n", user: " leafd ", password: " se cret "},
		"not ASCII":        {content: "löwe:пароль", user: "löwe", password: "пароль"},
		"empty":            {wants: "want one line user:password"},
		"no colon":         {content: "secret", wants: "want one line user:password"},
		"no user":          {content: ":secret", wants: "neither of them empty"},
		"no password":      {content: "leafd:\n", wants: "neither of them empty"},
		"two lines":        {content: "leafd:secret\nother:secret\n", wants: "want one line"},
		"empty line below": {content: "leafd:secret\n\n", wants: "want one line"},
		"zero byte":        {content: "leafd:sec\x00ret", wants: "control character"},
		"longest":          {content: "u:" + strings.Repeat("x", maxCredentialsBytes-2), user: "u", password: strings.Repeat("x", maxCredentialsBytes-2)},
		"too long":         {content: "u:" + strings.Repeat("x", maxCredentialsBytes-1), wants: "at most 4096 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "auth")
			require.NoError(t, os.WriteFile(path, []byte(test.content), 0o600))
			c, err := ParseCredentials(path)
			if test.wants != "" {
				require.ErrorContains(t, err, test.wants)
				require.ErrorContains(t, err, path)
				require.NotContains(t, err.Error(), "secret")
				require.Nil(t, c)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.user, c.user)
			require.Equal(t, test.password, c.password)
			for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
				require.Equal(t, fmt.Sprintf("as user %q", test.user), fmt.Sprintf(format, c))
			}
		})
	}
}

func TestParseCredentialsFiles(t *testing.T) {
	_, err := ParseCredentials(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Equal(t, "without credentials", (*Credentials)(nil).String())
}

func FuzzParseCredentials(f *testing.F) {
	for _, seed := range []string{"", ":", "a:b", "a:b\n", "a:b\r\n", "a:b\nc:d", "\n", "a:b:c\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		c, err := parseCredentials(content)
		if err != nil {
			require.Nil(t, c)
			return
		}
		require.True(t, c.user != "" && c.password != "" && !strings.Contains(c.user, ":"))
		require.True(t, strings.HasPrefix(string(content), c.user+":"+c.password))
		again, err := parseCredentials(append([]byte(c.user+":"+c.password), '\n'))
		require.NoError(t, err)
		require.Equal(t, c, again)
	})
}
