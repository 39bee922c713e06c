package langfuse

import (
	"context"
	"net/http"
	"net/url"
)

// Project is the project that the keys belong to.
type Project struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Organization is empty on old servers.
	Organization struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"organization"`
}

// GetProject returns the project of the keys; it is the cheapest way to check
// them and is not rate limited. Retried; errors: ErrUnauthorized, *APIError,
// *ConnectionError.
//
// API: GET /api/public/projects
func (c *Client) GetProject(ctx context.Context) (Project, error) {
	var page struct {
		Data []Project `json:"data"`
	}
	if err := c.getJSON(ctx, "projects", url.Values{}, &page); err != nil {
		return Project{}, err
	}
	if len(page.Data) != 1 || page.Data[0].ID == "" {
		return Project{}, &APIError{
			Method: http.MethodGet, Path: apiPrefix + "projects", Status: http.StatusOK, base: c.base,
			Message: "the keys do not stand for exactly one project: use the keys of a project, not of an organisation",
		}
	}
	return page.Data[0], nil
}
