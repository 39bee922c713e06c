package embedded

import (
	"database/sql"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

const commentColumns = "id, object_type, object_id, content, author_id, created, updated"

func (s *Server) scanComment(rows *sql.Rows) (object, error) {
	var id, kind, subject, content, author string
	var created, updated int64
	err := rows.Scan(&id, &kind, &subject, &content, &author, &created, &updated)
	return object{"id": id, "projectId": s.cfg.ProjectID, "objectType": kind, "objectId": subject, "content": content,
		"authorUserId": nullable(author), "createdAt": iso(created), "updatedAt": iso(updated)}, err
}

func commentTypes() []string { return []string{"TRACE", "OBSERVATION", "SESSION", "PROMPT"} }

const badCommentType = `Invalid option: expected one of "TRACE"|"OBSERVATION"|"SESSION"|"PROMPT"`

// createComment answers POST /comments. What is commented on has to exist. Any
// text is taken as an author: there are no users here.
func (s *Server) createComment(c *call) (reply, error) {
	f, err := readForm(c, smallBody)
	if err != nil {
		return reply{}, err
	}
	project, kind, subject, author := f.must("projectId"), f.must("objectType"), f.must("objectId"), f.text("authorUserId")
	content := strings.TrimSpace(f.must("content"))
	if length := utf8.RuneCountInString(content); (length < 1 || length > 5000) && !f.failed("content") {
		f.add("custom", "content", "Invalid input: expected 1 to 5000 characters")
	}
	if !slices.Contains(commentTypes(), kind) && !f.failed("objectType") {
		f.add("invalid_value", "objectType", badCommentType)
	}
	f.only()
	if err := f.err(); err != nil {
		return reply{}, err
	}
	exists, err := s.exists(kind, subject)
	if err != nil {
		return reply{}, err
	}
	if !exists || project != s.cfg.ProjectID {
		return reply{}, notFound("Reference object, %s: %s not found. Skipping comment creation.", kind, clip(subject, 300))
	}
	id, now := uuid.NewString(), s.now()
	err = s.store.update(func(tx *transaction) error {
		_, err := tx.Exec("INSERT INTO comments("+commentColumns+") VALUES(?,?,?,?,?,?,?)", id, kind, subject, content, author, now, now)
		return err
	})
	return reply{http.StatusOK, object{"id": id}}, err
}

// exists says whether there is an object of a kind; a trace is there also where
// only its spans are.
func (s *Server) exists(kind, id string) (bool, error) {
	table := map[string]string{
		"TRACE":       "(SELECT id FROM traces WHERE id = ?1 UNION ALL SELECT trace_id FROM observations WHERE trace_id = ?1)",
		"OBSERVATION": "observations WHERE span_id = ?1",
		"SESSION": `(SELECT id FROM traces WHERE session_id = ?1 AND session_id != ''
			UNION ALL SELECT trace_id FROM observations WHERE session_id = ?1)`,
		"PROMPT": "prompts WHERE id = ?1",
	}[kind]
	n, err := count(s.store.r, "SELECT count(*) FROM "+table, id)
	return n > 0, err
}

// listComments answers GET /comments, the newest first.
func (s *Server) listComments(c *call) (reply, error) {
	if err := c.strictly("objectType", "objectId", "authorUserId", "page", "limit"); err != nil {
		return reply{}, err
	}
	kind, subject := c.query.Get("objectType"), c.query.Get("objectId")
	if subject != "" && kind == "" {
		return reply{}, badQuery("objectType", "objectType is required when objectId is provided")
	}
	if kind != "" && !slices.Contains(commentTypes(), kind) {
		return reply{}, badQuery("objectType", badCommentType)
	}
	var w where
	for column, text := range map[string]string{"object_type": kind, "object_id": subject, "author_id": c.query.Get("authorUserId")} {
		if text != "" {
			w.add(column+" = ?", text)
		}
	}
	return s.listed(c, s.scanComment, commentColumns, "comments", &w, "created DESC, id DESC")
}

// getComment answers GET /comments/{id}.
func (s *Server) getComment(c *call) (reply, error) {
	found, err := collect(s.store.r, s.scanComment, "SELECT "+commentColumns+" FROM comments WHERE id = ?", c.path["id"])
	if err != nil {
		return reply{}, err
	}
	if len(found) == 0 {
		return reply{}, notFound("Comment not found within authorized project")
	}
	return ok(found[0])
}
